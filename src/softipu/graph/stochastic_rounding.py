"""Rounding to half up or down at random, so that the mean of many roundings is the number itself."""

from typing import Any

import torch

from softipu.graph.python_calls import PythonCall
from softipu.graph.seeds import mix

_LARGEST = torch.finfo(torch.float16).max


def round_stochastically(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """``x`` as float16: one of the two halves around each number, the nearer the likelier.

    Numbers beyond the largest half, infinities and NaN are rounded to the nearest as always.
    """
    wide = x.to(torch.float32)
    magnitude = wide.abs()
    nearest = magnitude.to(torch.float16)
    # Halves of one sign are ordered as their bits are.
    bits = nearest.view(torch.int16)
    below = torch.where(nearest.to(torch.float32) > magnitude, bits - 1, bits)
    lower = below.view(torch.float16)
    upper = (below + 1).view(torch.float16)
    gap = upper.to(torch.float32) - lower.to(torch.float32)
    share = (magnitude - lower.to(torch.float32)) / gap
    draw = torch.rand(x.shape, generator=generator)
    chosen = torch.where(draw < share, upper, lower)
    rounded = torch.where(magnitude < _LARGEST, chosen, nearest)
    return torch.copysign(rounded.to(torch.float32), wide).to(torch.float16)


class RoundStochastically(PythonCall):
    """Takes (seed, number) and a float32 tensor and returns it as half."""

    __name__ = "round_stochastically"

    def __init__(self) -> None:
        self._generator = torch.Generator()

    def __call__(self, seed: Any, number: int, x: torch.Tensor) -> torch.Tensor:
        return round_stochastically(x, self._generator.manual_seed(mix(int(seed), number)))
