"""Nested Python structures of tensors, as batches and step outputs are: taken apart and put together again.

    leaves, form = take_apart({"x": x, "rest": [y, "a.png", 3]})     ->  [x, y, "a.png", 3], form
    put_together(form, [x2, y2, "b.png", 4])                         ->  {"x": x2, "rest": [y2, "b.png", 4]}

Containers are tuple, list, dict and other mappings, named tuples, and dataclass instances. None belongs to the form: steps ask
`is None` about it. Everything else is a leaf.
"""

import collections.abc
import dataclasses
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import torch

from lightning_ipu.live.numbers import is_live
from lightning_ipu.structures.host_value import is_host_value

_NONE = "none"
_LEAF = "leaf"


class Leaf:
    """A mark for classes of the plug-in that are never taken apart, dataclasses though they may be."""


@dataclasses.dataclass(frozen=True)
class Form:
    """How a value is made up, without its leaves; equal forms take the same leaves.

    Attributes:
        kind: the container's type, or one of two marks for a leaf and for None.
        keys: a mapping's keys or a dataclass's fields.
        parts: the forms of what is inside.
        example: one instance, whose other attributes a rebuilt one gets.
    """

    kind: Any
    keys: Tuple[Any, ...] = ()
    parts: Tuple["Form", ...] = ()
    example: Any = dataclasses.field(default=None, compare=False, repr=False)


def take_apart(value: Any) -> Tuple[List[Any], Form]:
    """All leaves of a structure in order, and its form."""
    leaves: List[Any] = []
    return leaves, _take_apart(value, leaves)


def put_together(form: Form, leaves: Sequence[Any]) -> Any:
    """The structure of ``form`` with other leaves, in the order of ``take_apart``."""
    remaining = iter(leaves)
    value = _build(form, remaining)
    assert next(remaining, _NONE) is _NONE, "more leaves than the form has"
    return value


def paths(form: Form, prefix: str = "") -> List[str]:
    """Where each leaf stands, as Python would write it: ``['x'][0]``."""
    if form.kind == _LEAF:
        return [prefix]
    keys = form.keys if form.keys else range(len(form.parts))
    return [path for key, part in zip(keys, form.parts) for path in paths(part, f"{prefix}[{key!r}]")]


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """The same structure with ``function`` of every leaf."""
    leaves, form = take_apart(value)
    return put_together(form, [function(leaf) for leaf in leaves])


def joined(values: Sequence[Any]) -> Any:
    """Batches of one structure joined along their rows; leaves that are no tensors are put into a list, lists are appended.

    Raises:
        ValueError: structures that differ.
    """
    parts = [take_apart(value) for value in values]
    form = parts[0][1]
    if any(other != form for _, other in parts[1:]):
        raise ValueError(
            f"Batches of one call of the device must be built alike, but the loader gave {parts[0][1]!r} and "
            f"{next(other for _, other in parts if other != form)!r}. Give batches of one structure, or use device_iterations=1, "
            "accumulate_grad_batches=1 and devices=1."
        )
    columns = zip(*(leaves for leaves, _ in parts))
    return put_together(form, [_joined_leaf(column) for column in columns])


def first_rows(value: Any) -> Optional[int]:
    """Rows of a batch: the size of its first tensor's first dimension, or None without such a tensor."""
    return next((leaf.shape[0] for leaf in take_apart(value)[0] if isinstance(leaf, torch.Tensor) and leaf.dim()), None)


def _joined_leaf(column: Sequence[Any]) -> Any:
    first = column[0]
    if isinstance(first, torch.Tensor):
        return torch.cat(list(column)) if first.dim() else first
    return first


def _take_apart(value: Any, leaves: List[Any]) -> Form:
    kind = type(value)
    if value is None:
        return Form(_NONE)
    if is_live(value) or is_host_value(value) or isinstance(value, Leaf):  # the first two claim to be what they stand for
        leaves.append(value)
        return Form(_LEAF)
    if isinstance(value, (list, tuple)):
        # Lists of words, as a collate function makes them of text, are one leaf: their length says nothing about the form.
        if isinstance(value, list) and value and all(isinstance(item, (str, bytes)) for item in value):
            leaves.append(value)
            return Form(_LEAF)
        return Form(kind, parts=tuple(_take_apart(item, leaves) for item in value), example=value)
    if isinstance(value, collections.abc.Mapping):
        return Form(kind, tuple(value), tuple(_take_apart(value[key], leaves) for key in value), example=value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple(field.name for field in dataclasses.fields(value) if hasattr(value, field.name))
        return Form(kind, names, tuple(_take_apart(getattr(value, name), leaves) for name in names), example=value)
    leaves.append(value)
    return Form(_LEAF)


def _build(form: Form, leaves: Iterator[Any]) -> Any:
    kind = form.kind
    if kind == _LEAF:
        return next(leaves)
    if kind == _NONE:
        return None
    parts = [_build(part, leaves) for part in form.parts]
    if issubclass(kind, (list, tuple)):
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    if issubclass(kind, collections.abc.Mapping):
        return _mapping(form, parts)
    built = object.__new__(kind)
    for name, value in {**getattr(form.example, "__dict__", {}), **dict(zip(form.keys, parts))}.items():
        object.__setattr__(built, name, value)  # also in frozen classes
    return built


def _mapping(form: Form, parts: List[Any]) -> Any:
    pairs = dict(zip(form.keys, parts))
    if form.kind is dict:
        return pairs
    if dataclasses.is_dataclass(form.kind):  # such as the outputs of transformers
        made: Any = form.kind
        return made(**pairs)
    # Without running __init__, whose arguments are not known.
    built = form.kind.__new__(form.kind)
    for name, value in getattr(form.example, "__dict__", {}).items():
        if name != "data":
            built.__dict__[name] = value
    if isinstance(built, collections.UserDict):
        built.data = {}
    if isinstance(built, collections.defaultdict):
        built.default_factory = form.example.default_factory
    for key, value in pairs.items():
        built[key] = value
    return built
