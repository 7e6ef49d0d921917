"""What a value of a step is to several micro-batches. A plain tensor is the same for all of them."""

from typing import Any, Iterator

import torch


class Many:
    """A value of each of n micro-batches: [n, ...]."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


class Total:
    """The sum of a value over the micro-batches."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def many_in(value: Any) -> Iterator[Many]:
    """All Many in nested arguments."""
    if isinstance(value, Many):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from many_in(item)
    elif isinstance(value, dict):
        yield from many_in(list(value.values()))


def total(value: Any, n: int) -> torch.Tensor:
    """The sum over ``n`` micro-batches."""
    if isinstance(value, Total):
        return value.tensor
    if isinstance(value, Many):
        return value.tensor.sum(0)
    return value * n
