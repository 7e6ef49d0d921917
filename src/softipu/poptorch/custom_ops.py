"""Python implementations of a user's C++ operations, for where their library cannot be loaded.

PopTorch's custom_op calls an operation of a C++ library that was built for PopART. The software IPU has no PopART, so the
program says once, for each operation, what it computes:

    from softipu.poptorch import custom_ops

    @custom_ops.register("Cube", "com.acme", 1)
    def cube(inputs, attributes):
        x, bias = inputs
        return [x**3 + bias, x**3]

The function is captured like the rest of the model, so its gradient is PyTorch's. On hardware nobody calls it.
"""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence

import torch

from softipu.errors import Error

Reference = Callable[[List[torch.Tensor], Dict[str, Any]], Sequence[torch.Tensor]]


class OpName(NamedTuple):
    """What PopART knows an operation by."""

    name: str
    domain: str
    version: int


_references: Dict[OpName, Reference] = {}


def register(name: str, domain: str, domain_version: int) -> Callable[[Reference], Reference]:
    """Decorator: the function computes the operation of this name, domain and version; a later one replaces it.

    The function takes a list of tensors and a dict of the attributes that custom_op was given, and returns the operation's
    outputs as a list.
    """

    def keep(reference: Reference) -> Reference:
        _references[OpName(name, domain, domain_version)] = reference
        return reference

    return keep


def unregister(name: str, domain: str, domain_version: int) -> None:
    """Forgets the function of an operation, if there is one."""
    _references.pop(OpName(name, domain, domain_version), None)


def compute(op: OpName, inputs: Sequence[torch.Tensor], attributes: Mapping[str, Any]) -> List[torch.Tensor]:
    """The outputs of an operation. Error: nobody registered one."""
    if op not in _references:
        raise Error(
            f"The custom op '{op.name}' of domain '{op.domain}', version {op.version}, has no implementation on the software IPU: its C++ "
            "library is for hardware. Register a Python one before the model is compiled: "
            f"@softipu.poptorch.custom_ops.register({op.name!r}, {op.domain!r}, {op.version}) on a function of (inputs, attributes)."
        )
    returned = _references[op](list(inputs), dict(attributes))
    outputs: List[torch.Tensor] = [*returned] if isinstance(returned, (list, tuple)) else [returned]  # type: ignore[list-item]
    if not all(isinstance(t, torch.Tensor) for t in outputs):
        raise Error(f"The implementation of the custom op '{op.name}' must return a list of tensors, but it returned {outputs!r}.")
    return outputs
