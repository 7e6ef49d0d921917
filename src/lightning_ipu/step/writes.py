"""What a step did to attributes and containers of its module: done again on the host after each call."""

from dataclasses import dataclass
from typing import Any, Sequence, Tuple


@dataclass(frozen=True)
class Write:
    """An attribute that the step sets: what it had last, with tensors replaced by references to outputs."""

    owner: Any
    name: str
    label: str
    value: Any

    @property
    def is_made(self) -> bool:
        """Whether it is a weight made from parameters, as pruning and weight normalisation make one."""
        registry = getattr(self.owner, "_parameters", {})
        return any(f"{self.name}_{end}" in registry for end in ("orig", "g", "v"))


@dataclass(frozen=True)
class Growth:
    """Items that the step added to a list, a set or a dictionary on the module: (key, value) pairs for a dictionary."""

    container: Any
    label: str
    items: Tuple[Any, ...]


def set_again(write: Write, value: Any) -> None:
    """Makes an assignment of the step on the host."""
    setattr(write.owner, write.name, value)


def grow_again(growth: Growth, items: Sequence[Any]) -> None:
    """Adds to a container what the step added."""
    if isinstance(growth.container, dict):
        growth.container.update(items)
    elif isinstance(growth.container, set):
        growth.container.update(items)
    else:
        growth.container.extend(items)
