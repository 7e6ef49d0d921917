"""Finds tensors of a captured step that forward left behind on the module: on hardware they have no value on the host."""

from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

from torch import nn

from softipu.capture._torch_private import FakeTensor
from softipu.errors import CaptureError

_REGISTRIES = ("_parameters", "_buffers", "_modules")


@dataclass
class ValuesBefore:
    """Plain attributes of a module tree before its forward was captured."""

    module: nn.Module
    sizes: Dict[Tuple[str, str], int]
    derived: Dict[Tuple[str, str], Any]

    def changed(self) -> List[str]:
        """Names of attributes that hold a traced tensor now; they are emptied of it."""
        found = []
        for prefix, submodule in self.module.named_modules():
            for name, value in list(vars(submodule).items()):
                if name in _REGISTRIES:
                    continue
                full = f"{prefix}.{name}" if prefix else name
                if (prefix, name) in self.derived:
                    setattr(submodule, name, self.derived[(prefix, name)])
                elif isinstance(value, FakeTensor):
                    found.append(full)
                    delattr(submodule, name)
                elif isinstance(value, (list, tuple, dict)) and _holds_traced(value):
                    found.append(full)
                    _trim(value, self.sizes.get((prefix, name), 0))
        return found


def values_before(module: nn.Module) -> ValuesBefore:
    """Remembers how long the containers on ``module`` are."""
    sizes = {}
    derived = {}
    for prefix, submodule in module.named_modules():
        # torch.nn.utils.weight_norm and spectral_norm put the weight that they compute on the module, before every forward.
        for hook in submodule._forward_pre_hooks.values():
            name = str(getattr(hook, "name", ""))
            if name in vars(submodule):
                derived[(prefix, name)] = vars(submodule)[name]
        for name, value in vars(submodule).items():
            if name not in _REGISTRIES and isinstance(value, (list, dict)):
                sizes[(prefix, name)] = len(value)
    return ValuesBefore(module, sizes, derived)


def refuse_leaks(names: List[str]) -> None:
    """Raises CaptureError if a step left traced tensors on the module."""
    if names:
        listed = ", ".join(f"self.{n}" for n in names)
        raise CaptureError(
            f"The step keeps tensors in {listed}, but on an IPU they have no value on the host while the step runs. "
            "Return them from the step (outputs reach the on_..._batch_end hooks), or log them by self.log."
        )


def _holds_traced(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value
    return any(isinstance(item, FakeTensor) or (isinstance(item, (list, tuple, dict)) and _holds_traced(item)) for item in items)


def _trim(value: Any, size: int) -> None:
    if isinstance(value, list):
        del value[size:]
    elif isinstance(value, dict):
        for key in [k for k, v in value.items() if isinstance(v, FakeTensor)]:
            del value[key]
