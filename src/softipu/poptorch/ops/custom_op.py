"""custom_op: calls an operation of a user's own library."""

from typing import Any, Dict, List, Mapping, Optional, Sequence

import torch

from softipu.capture import current
from softipu.errors import Error
from softipu.poptorch.custom_ops import OpName, compute

_LARGEST_FLOAT = torch.finfo(torch.float32).max
_LARGEST_INT = torch.iinfo(torch.int64).max


def custom_op(
    inputs: Sequence[torch.Tensor],
    name: str,
    domain: str,
    domain_version: int,
    example_outputs: Sequence[torch.Tensor],
    attributes: Optional[Mapping[str, Any]] = None,
) -> List[torch.Tensor]:
    """The outputs of an operation of the user's own.

    Args:
        inputs: the operation's tensors.
        name, domain, domain_version: what the operation is known by; see ``softipu.poptorch.custom_ops``.
        example_outputs: tensors like its outputs. Outside an IPU zeros of their shapes are returned.
        attributes: float, int or str values, or lists of one of these types.

    Raises:
        ValueError: an attribute of another type, a list of several types, or text that is not ASCII.
        Error: a number that is too large for PopART, or an operation that has no implementation.
    """
    given: Dict[str, Any] = dict(attributes or {})
    for key, value in given.items():
        _check_attribute(key, value)
    if current() is None:
        return [torch.zeros_like(t) for t in example_outputs]
    for value in given.values():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            _check_range(item)
    return compute(OpName(name, domain, domain_version), inputs, given)


def _check_attribute(key: Any, value: Any) -> None:
    if not isinstance(key, str):
        raise ValueError(f"All attribute keys must be strings, given {key!r}.")
    if not isinstance(value, (float, int, str, list, tuple)):
        raise ValueError(f"Attribute values must be floats, ints, strings or lists of one of them, but {key} is {value!r}.")
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    if any(type(item) is not type(items[0]) for item in items):
        raise ValueError(f"The types in a list/tuple attribute must all be the same, but {key} is {value!r}.")
    if items and not isinstance(items[0], (float, int, str)):
        raise ValueError(f"Attribute values must be floats, ints, strings or lists of one of them, but {key} is {value!r}.")
    for text in [key, *items]:
        if isinstance(text, str) and not all(ord(character) < 128 for character in text):
            raise ValueError(f"{text} contains non-ASCII characters.")


def _check_range(value: Any) -> None:
    kind, largest, shown = ("float", _LARGEST_FLOAT, "g") if isinstance(value, float) else ("int", _LARGEST_INT, "d")
    if isinstance(value, (int, float)) and abs(value) > largest:
        raise Error(f"{value:{shown}} is too {'high' if value > 0 else 'low'} for a Popart {kind} attribute.")
