"""Python values as JSON: numbers, text, containers, tensors, and a few kinds of torch's.

What JSON has no word for is a list whose first item says what it is, such as ["tuple", 1, 2].
"""

import dataclasses
import enum
import math
import types
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
import torch.nn.functional as F

from softipu.poptorch.saved.known_classes import UnknownClass, class_name, find_class

_FUNCTION_SOURCES = {"torch": torch, "torch.nn.functional": F}


class CannotSave(Exception):
    """A value that cannot be written; the message says which and why."""


class ValueWriter:
    """Writes values; tensors go into the list ``tensors``, each once."""

    def __init__(self) -> None:
        self.tensors: List[torch.Tensor] = []
        self._known: Dict[int, Any] = {}
        self._places: Dict[int, int] = {}

    def knowing(self, known: Dict[int, Any]) -> "ValueWriter":
        """A writer into the same list of tensors that writes the objects of these ids as their names."""
        other = ValueWriter()
        other.tensors, other._places, other._known = self.tensors, self._places, known
        return other

    def tensor(self, tensor: torch.Tensor) -> int:
        """Position of a tensor in the list."""
        if id(tensor) not in self._places:
            self._places[id(tensor)] = len(self.tensors)
            self.tensors.append(tensor)
        return self._places[id(tensor)]

    def write(self, value: Any) -> Any:
        """A value as JSON. CannotSave: it has no form here."""
        if id(value) in self._known:
            return ["known", self._known[id(value)]]
        if type(value) in (type(None), bool, str, int) or (type(value) is float and math.isfinite(value)):
            return value
        for kind, wanted, form in _FORMS:
            if wanted(value):
                return [kind, *form(self, value)]
        raise CannotSave(f"a {type(value).__module__}.{type(value).__qualname__} has no form that is safe to read back")


class ValueReader:
    """Reads what a ValueWriter wrote.

    Args:
        tensors: its list.
        known: the objects behind its names.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], known: Optional[Dict[Any, Any]] = None) -> None:
        self._tensors, self._known = tensors, known or {}

    def read(self, form: Any) -> Any:
        """The value of a form. ValueError: it is none."""
        if not isinstance(form, list):
            return form
        kind, rest = form[0], form[1:]
        if kind not in _READERS:
            raise ValueError(f"unknown kind of value {kind!r}")
        return _READERS[kind](self, rest)


def _named(cls: type) -> str:
    try:
        return class_name(cls)
    except UnknownClass as error:
        raise CannotSave(str(error)) from error


def _function_name(value: Any) -> Optional[str]:
    """``torch.relu`` or ``torch.nn.functional.gelu``: an operation of torch's under its public name."""
    for prefix, source in _FUNCTION_SOURCES.items():
        name = getattr(value, "__name__", "_")
        ours = isinstance(value, types.BuiltinFunctionType) or getattr(value, "__module__", "") == F.__name__
        if ours and not name.startswith(("_", "from_")) and vars(source).get(name) is value:
            return f"{prefix}.{name}"
    return None


def _pairs(writer: ValueWriter, mapping: Dict[Any, Any]) -> List[Any]:
    return [[writer.write(k), writer.write(v)] for k, v in mapping.items()]


def _fields(value: Any) -> Dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


_FORMS: Sequence[Any] = (
    ("float", lambda v: type(v) is float, lambda w, v: [repr(v)]),
    ("enum", lambda v: isinstance(v, enum.Enum), lambda w, v: [_named(type(v)), v.name]),
    ("tensor", lambda v: isinstance(v, torch.Tensor) and not isinstance(v, torch.nn.Parameter), lambda w, v: [w.tensor(v)]),
    ("dtype", lambda v: isinstance(v, torch.dtype), lambda w, v: [str(v)[6:]]),
    ("size", lambda v: isinstance(v, torch.Size), lambda w, v: list(v)),
    ("device", lambda v: isinstance(v, torch.device), lambda w, v: [str(v)]),
    ("named_tuple", _is_named_tuple, lambda w, v: [_named(type(v)), *map(w.write, v)]),
    ("list", lambda v: type(v) is list, lambda w, v: map(w.write, v)),
    ("tuple", lambda v: type(v) is tuple, lambda w, v: map(w.write, v)),
    ("set", lambda v: type(v) is set, lambda w, v: map(w.write, v)),
    ("dict", lambda v: type(v) is dict, lambda w, v: _pairs(w, v)),
    (
        "dataclass",
        _is_dataclass,
        lambda w, v: [_named(type(v)), *_pairs(w, _fields(v))],
    ),
    ("function", lambda v: _function_name(v) is not None, lambda w, v: [_function_name(v)]),
)


def _read_enum(reader: ValueReader, rest: List[Any]) -> Any:
    cls = find_class(rest[0])
    if not issubclass(cls, enum.Enum):
        raise ValueError(f"{rest[0]} is no enumeration")
    return cls[rest[1]]


def _read_named_tuple(reader: ValueReader, rest: List[Any]) -> Any:
    cls = find_class(rest[0])
    if not (issubclass(cls, tuple) and hasattr(cls, "_fields")):
        raise ValueError(f"{rest[0]} is no named tuple")
    return tuple.__new__(cls, [reader.read(v) for v in rest[1:]])


def _read_dataclass(reader: ValueReader, rest: List[Any]) -> Any:
    cls = find_class(rest[0])
    if not dataclasses.is_dataclass(cls):
        raise ValueError(f"{rest[0]} is no dataclass")
    names = {field.name for field in dataclasses.fields(cls)}
    value = object.__new__(cls)
    for key, form in rest[1:]:
        if key not in names:
            raise ValueError(f"{rest[0]} has no field {key!r}")
        object.__setattr__(value, key, reader.read(form))
    return value


def _read_function(reader: ValueReader, rest: List[Any]) -> Any:
    prefix, _, name = rest[0].rpartition(".")
    found = vars(_FUNCTION_SOURCES[prefix])[name] if prefix in _FUNCTION_SOURCES else None
    if found is None or _function_name(found) != rest[0]:
        raise ValueError(f"{rest[0]} is no operation of torch's")
    return found


def _read_dtype(reader: ValueReader, rest: List[Any]) -> Any:
    found = getattr(torch, rest[0], None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{rest[0]} is no dtype")
    return found


_READERS: Dict[str, Callable[[ValueReader, List[Any]], Any]] = {
    "known": lambda reader, rest: reader._known[rest[0]],
    "float": lambda reader, rest: float(rest[0]),
    "enum": _read_enum,
    "tensor": lambda reader, rest: reader._tensors[rest[0]],
    "dtype": _read_dtype,
    "size": lambda reader, rest: torch.Size(rest),
    "device": lambda reader, rest: torch.device(rest[0]),
    "named_tuple": _read_named_tuple,
    "list": lambda reader, rest: [reader.read(v) for v in rest],
    "tuple": lambda reader, rest: tuple(reader.read(v) for v in rest),
    "set": lambda reader, rest: {reader.read(v) for v in rest},
    "dict": lambda reader, rest: {reader.read(k): reader.read(v) for k, v in rest},
    "dataclass": _read_dataclass,
    "function": _read_function,
}
