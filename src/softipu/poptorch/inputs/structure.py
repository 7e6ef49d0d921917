"""Nested Python structures of tensors: taken apart into a flat list and put together again.

    tensors, spec = flatten({"x": x, "rest": (y, 3)})     ->  [y, x], spec
    unflatten(spec, [y2, x2])                             ->  {"x": x2, "rest": (y2, 3)}

A spec tells kinds, keys and all values that are no tensors; it holds no tensors of its own (a registered user structure excepted).
Specs compare equal when their structures are the same. The order of keys of a dict does not matter: tensors of a dict are listed by
sorted key, and each spec puts the keys back in the order of its own structure.

Structures are tuple, list, dict, UserDict and their subclasses, named tuples, dataclass instances that hold a tensor, and classes
with a registered parser. Everything else is a constant.
"""

import collections
import dataclasses
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import torch

from softipu.poptorch.inputs.custom_parser import ICustomArgParser, find_parser


class Spec:
    """How one value is made up. ``kind`` is its Python type, ``n_tensors`` how many tensors it has."""

    kind: type
    n_tensors: int

    def build(self, tensors: Iterator[torch.Tensor]) -> Any:
        """The value, with its tensors taken from the iterator."""
        raise NotImplementedError

    def children(self) -> Dict[Any, "Spec"]:
        """The parts by index, key or field, in the order of their tensors."""
        return {}


@dataclasses.dataclass(frozen=True)
class TensorSpec(Spec):
    """A tensor, whatever its shape and dtype."""

    kind = torch.Tensor
    n_tensors = 1

    def build(self, tensors: Iterator[torch.Tensor]) -> Any:
        return next(tensors)


@dataclasses.dataclass(frozen=True, eq=False)
class ConstantSpec(Spec):
    """A value that is no tensor and holds none."""

    value: Any
    n_tensors = 0

    @property
    def kind(self) -> type:  # type: ignore[override]
        return type(self.value)

    def build(self, tensors: Iterator[torch.Tensor]) -> Any:
        return self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstantSpec) and self.kind is other.kind and same_value(self.value, other.value)

    __hash__ = None  # type: ignore[assignment]


@dataclasses.dataclass(frozen=True)
class SequenceSpec(Spec):
    """A list, tuple, named tuple, or a subclass of them."""

    kind: type
    items: Tuple[Spec, ...]

    @property
    def n_tensors(self) -> int:  # type: ignore[override]
        return sum(item.n_tensors for item in self.items)

    def build(self, tensors: Iterator[torch.Tensor]) -> Any:
        parts = [item.build(tensors) for item in self.items]
        return self.kind(*parts) if hasattr(self.kind, "_fields") else self.kind(parts)

    def children(self) -> Dict[Any, Spec]:
        return dict(enumerate(self.items))


@dataclasses.dataclass(frozen=True)
class MappingSpec(Spec):
    """A dict or a subclass, with all that an instance holds besides its items."""

    kind: type
    items: Dict[Any, Spec]
    """By key, in the order of the tensors."""
    order: Tuple[Any, ...] = dataclasses.field(compare=False)
    """The keys in the structure's own order."""
    attributes: Dict[str, Any] = dataclasses.field(compare=False)
    """What an instance holds besides its items."""

    @property
    def n_tensors(self) -> int:  # type: ignore[override]
        return sum(item.n_tensors for item in self.items.values())

    def build(self, tensors: Iterator[torch.Tensor]) -> Any:
        parts = {key: item.build(tensors) for key, item in self.items.items()}
        if dataclasses.is_dataclass(self.kind):
            return self.kind(**{key: parts[key] for key in self.order})
        # Without running __init__, whose arguments are not known.
        built = _bare(self.kind)
        for name, value in self.attributes.items():
            setattr(built, name, value)
        if isinstance(built, collections.UserDict):
            built.data = {}
        for key in self.order:
            built[key] = parts[key]
        return built

    def children(self) -> Dict[Any, Spec]:
        return self.items


@dataclasses.dataclass(frozen=True)
class DataclassSpec(Spec):
    """An instance of a dataclass. It is built without running ``__init__``, so fields that are not set stay unset."""

    kind: type
    fields: Dict[str, Spec]
    extras: Dict[str, Any] = dataclasses.field(compare=False)
    """Attributes that are no fields."""

    @property
    def n_tensors(self) -> int:  # type: ignore[override]
        return sum(item.n_tensors for item in self.fields.values())

    def build(self, tensors: Iterator[torch.Tensor]) -> Any:
        built = _bare(self.kind)
        for name, item in self.fields.items():
            object.__setattr__(built, name, item.build(tensors))  # also for frozen classes
        for name, value in self.extras.items():
            object.__setattr__(built, name, value)
        return built

    def children(self) -> Dict[Any, Spec]:
        return dict(self.fields)


@dataclasses.dataclass(frozen=True)
class CustomSpec(Spec):
    """A value of a class with a registered parser."""

    kind: type
    n_tensors: int
    parser: ICustomArgParser = dataclasses.field(compare=False)
    original: Any = dataclasses.field(compare=False)

    def build(self, tensors: Iterator[torch.Tensor]) -> Any:
        # A parser may use up what it is given (`Kind(*iterator)`), so it gets its own tensors only.
        return self.parser.reconstruct(self.original, iter([next(tensors) for _ in range(self.n_tensors)]))

    def children(self) -> Dict[Any, Spec]:
        return {index: TensorSpec() for index in range(self.n_tensors)}


def flatten(value: Any) -> Tuple[List[torch.Tensor], Spec]:
    """All tensors of a structure, and how to put it together again."""
    tensors: List[torch.Tensor] = []
    return tensors, _take_apart(value, tensors)


def unflatten(spec: Spec, tensors: Sequence[Any]) -> Any:
    """The structure of ``spec`` with other tensors, in the order that ``flatten`` lists them.

    Raises:
        ValueError: not as many tensors as the structure has.
    """
    if len(tensors) != spec.n_tensors:
        raise ValueError(f"The structure has {spec.n_tensors} tensors, given {len(tensors)}.")
    return spec.build(iter(tensors))


def same_value(left: Any, right: Any) -> bool:
    """Whether two constants are equal; arrays are when all their elements are, and NaN equals NaN."""
    if left is right:
        return True
    if isinstance(left, float) and isinstance(right, float) and left != left and right != right:
        return True  # not a number, twice
    equal = left == right
    if isinstance(equal, bool):
        return equal
    try:
        return getattr(left, "shape", None) == getattr(right, "shape", None) and bool(equal.all())
    except (AttributeError, TypeError, ValueError):
        return bool(equal)


def _take_apart(value: Any, tensors: List[torch.Tensor]) -> Spec:
    kind = type(value)
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return TensorSpec()
    parser = find_parser(kind)
    if parser is not None:
        own = list(parser.yieldTensors(value))
        tensors.extend(own)
        return CustomSpec(kind, len(own), parser, value)
    if isinstance(value, (list, tuple)):
        return SequenceSpec(kind, tuple(_take_apart(item, tensors) for item in value))
    if isinstance(value, (dict, collections.UserDict)):
        items = {key: _take_apart(value[key], tensors) for key in _sorted(value)}
        attributes = dict(getattr(value, "__dict__", {}))
        if isinstance(value, collections.UserDict):
            del attributes["data"]
        if isinstance(value, collections.defaultdict):
            attributes["default_factory"] = value.default_factory
        return MappingSpec(kind, items, tuple(value), attributes)
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if hasattr(value, field.name)]
        own = []
        fields = {name: _take_apart(getattr(value, name), own) for name in names}
        if own:
            tensors.extend(own)
            extras = {name: extra for name, extra in getattr(value, "__dict__", {}).items() if name not in fields}
            return DataclassSpec(kind, fields, extras)
    return ConstantSpec(value)


def _bare(kind: Any) -> Any:
    """An instance without running ``__init__``."""
    return kind.__new__(kind)


def _sorted(keys: Any) -> List[Any]:
    try:
        return sorted(keys)
    except TypeError:  # keys of several kinds
        return sorted(keys, key=lambda key: (type(key).__name__, repr(key)))
