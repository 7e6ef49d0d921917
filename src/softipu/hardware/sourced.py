"""A figure with its source, and values made of them."""

from dataclasses import field, fields
from typing import Any, Callable, Dict, Iterator, NamedTuple, Tuple, TypeVar

T = TypeVar("T")


class Sourced(NamedTuple):
    """A figure and where it stands; the unit is in the name of the field that it fills."""

    value: Any
    source: str


def sourced_field() -> Any:
    """The field of a dataclass that keeps the sources of the others, by name."""
    return field(default_factory=dict, compare=False, repr=False)


def from_figures(cls: Callable[..., T], **figures: Any) -> T:
    """``cls`` filled from ``Sourced`` figures and plain values; the sources go to its field ``sources``."""
    values = {name: given.value if isinstance(given, Sourced) else given for name, given in figures.items()}
    sources: Dict[str, str] = {name: given.source for name, given in figures.items() if isinstance(given, Sourced)}
    return cls(sources=sources, **values)


def figures_of(value: Any) -> Iterator[Tuple[str, Any, str]]:
    """(name, figure, source) of every figure of a value made by ``from_figures``, in the order of its fields."""
    for one in fields(value):
        if one.name in value.sources:
            yield one.name, getattr(value, one.name), value.sources[one.name]
