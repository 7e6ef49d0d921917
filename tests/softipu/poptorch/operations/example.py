"""An operation on some small tensors, and the tensors that most examples take."""

from dataclasses import dataclass
from typing import Any, Callable, Dict, Tuple

import torch
from torch import nn

Tensors = Tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Example:
    """An operation on some tensors.

    Attributes:
        make: makes what is called: a module, or a function.
        inputs: its tensors; float ones are trained too.
        is_random: whether two runs differ, so that values cannot be compared.
        is_scaling: whether each element of the result is its input's times a number drawn.
        in_half: whether the operation exists for half values.
        has_gradient: whether its result depends on float inputs in a way that has a gradient.
    """

    make: Callable[[], Callable[..., Any]]
    inputs: Callable[[], Tensors]
    is_random: bool = False
    is_scaling: bool = True
    in_half: bool = True
    has_gradient: bool = True


Table = Dict[str, Example]


def x(*shape: int, low: float = -2.0, high: float = 2.0) -> torch.Tensor:
    """Uniform floats, the same for the same shape and limits, each exact in half precision and none near 0."""
    generator = torch.Generator().manual_seed(sum(shape) + 7 * len(shape))
    values = torch.rand(*shape, generator=generator) * (high - low) + low
    values = values.half().float()
    return torch.where(values.abs() < 0.05, values + 0.25, values)


def ints(*shape: int, high: int = 4) -> torch.Tensor:
    """Integers from 0 to high - 1."""
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(sum(shape)))


def bools(*shape: int) -> torch.Tensor:
    return ints(*shape, high=2).bool()


def ex(function: Callable[..., Any], *inputs: torch.Tensor, **flags: Any) -> Example:
    """An example of a function."""
    return Example(lambda: function, lambda: tuple(t.clone() for t in inputs), **flags)


def layer(make: Callable[[], nn.Module], *inputs: torch.Tensor, **flags: Any) -> Example:
    """An example of a module."""
    return Example(make, lambda: tuple(t.clone() for t in inputs), **flags)


def flat(**flags: Any) -> Dict[str, Any]:
    """Flags of operations without gradient."""
    return {"has_gradient": False, **flags}


A = x(3, 4)
B = x(3, 4, low=0.5, high=3.0)
POSITIVE = x(3, 4, low=0.25, high=3.0)
UNIT = x(3, 4, low=-0.9, high=0.9)
SQUARE = x(4, 4)
BATCH = x(2, 3, 4)
SEQUENCE = x(2, 3, 8)
IMAGE = x(2, 3, 6, 6)
VOLUME = x(1, 2, 4, 4, 4)
