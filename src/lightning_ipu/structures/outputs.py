"""What a call of the device returned, micro-batch by micro-batch.

PopTorch joins the outputs of all micro-batches along their first dimension, in the order device iteration D, accumulation step G,
replica R; scalars become a vector. Here they are taken apart again, with the shapes that one micro-batch had at capture.

A **group** is the R micro-batches of one (d, g): what one batch is in a CPU run with the same effective batch.
"""

from dataclasses import dataclass
from typing import Callable, Dict, Optional, Sequence, Tuple

import torch

_REDUCTIONS: Dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda values: values.sum().to(values.dtype),
    "max": torch.amax,
    "min": torch.amin,
}


@dataclass(frozen=True)
class OutputShape:
    """An output of one micro-batch: its shape and dtype as the step has them, and of a scalar how the step came by it (kinds.py): its
    kind, or a function that gives it from the values of other outputs."""

    shape: Tuple[int, ...]
    dtype: torch.dtype
    kind: Optional[str] = None
    derived: Optional[Callable[[Callable[[int], torch.Tensor]], torch.Tensor]] = None


@dataclass(frozen=True)
class Cut:
    """How a call's host batch is cut.

    Attributes:
        n_iterations, n_accumulated, n_replicas: D, G and R.
        micro_rows: rows of a micro-batch, or None where the batch does not tell.
        n_real: micro-batches that hold data; the rest of the call only fills it up.
        is_one_group: all micro-batches together are one group, a batch that was too short for R of the usual size.
        share: of a whole update's micro-batches, where a call has fewer: their gradients count as much as on the CPU, 1/G each.
        is_part: it is one of several calls that make one update; the host adds up their gradients.
    """

    n_iterations: int
    n_accumulated: int
    n_replicas: int
    micro_rows: Optional[int]
    n_real: int
    is_one_group: bool = False
    share: float = 1.0
    is_part: bool = False

    @property
    def n_micro_batches(self) -> int:
        """All micro-batches of the call."""
        return self.n_iterations * self.n_accumulated * self.n_replicas

    @property
    def n_groups(self) -> int:
        """Groups with data in them."""
        return 1 if self.is_one_group else -(-self.n_real // self.n_replicas)

    def group(self, index: int) -> slice:
        """The micro-batches of a group that hold data."""
        places = self.places(index)
        return slice(places.start, min(places.stop, self.n_real))

    def places(self, index: int) -> slice:
        """All micro-batches of a group."""
        size = self.n_micro_batches if self.is_one_group else self.n_replicas
        return slice(index * size, (index + 1) * size)


class Results:
    """The outputs of one call.

    Args:
        tensors: as the executor returned them.
        shapes: of each output for one micro-batch.
        cut: how the host batch was cut.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], shapes: Sequence[OutputShape], cut: Cut) -> None:
        self.cut, self._shapes = cut, shapes
        # int64 and float64 come back narrowed.
        self._tensors = [t if t.dtype == s.dtype else t.to(s.dtype) for t, s in zip(tensors, shapes)]

    def is_scalar(self, index: int) -> bool:
        """Whether the output is one number per micro-batch."""
        return not self._shapes[index].shape

    def has_rows(self, index: int) -> bool:
        """Whether the output has one entry per sample."""
        shape = self._shapes[index].shape
        return bool(shape) and (self.cut.micro_rows is None or shape[0] == self.cut.micro_rows)

    def micro_batches(self, index: int, which: slice) -> torch.Tensor:
        """The values of some micro-batches, [n, *shape]."""
        shape, tensor = self._shapes[index].shape, self._tensors[index]
        if tensor.shape == shape and self.cut.n_micro_batches != 1:  # a constant of the host
            return tensor.expand(self.cut.n_micro_batches, *shape)[which]
        return tensor.reshape(self.cut.n_micro_batches, *shape)[which]

    def joined(self, index: int, which: slice) -> torch.Tensor:
        """One value for some micro-batches: rows one after another, scalars as their kind says."""
        values = self.micro_batches(index, which)
        if not self.is_scalar(index):
            return values.flatten(0, 1)
        if len(values) == 1:
            return values[0]
        derived = self._shapes[index].derived
        if derived is not None:
            return derived(lambda other: self.joined(other, which)).to(values.dtype)
        return self.reduced(index, values)

    def reduced(self, index: int, values: torch.Tensor, weights: Optional[Sequence[float]] = None) -> torch.Tensor:
        """One value for several values of a scalar output, [n]. A mean may be weighted."""
        kind = self._shapes[index].kind
        if values.dtype == torch.bool:
            return values.all()
        if kind in _REDUCTIONS:
            return _REDUCTIONS[kind](values)
        if kind is None and not values.is_floating_point():
            return values.sum().to(values.dtype)
        if weights is None:
            return values.float().mean().to(values.dtype)
        scale = torch.tensor(weights, dtype=torch.float32)
        return ((values.float() * scale).sum() / scale.sum()).to(values.dtype)


def whole(parts: Sequence[Tuple[Results, slice]], indices: Sequence[int]) -> torch.Tensor:
    """One output of several calls that together made up a host batch: rows one after another, scalars as their kind says, weighted by rows.

    Args:
        parts: results and which of their micro-batches count.
        indices: the output's place among those of each call.
    """
    values = [results.joined(index, which) for (results, which), index in zip(parts, indices)]
    first = parts[0][0]
    if len(values) == 1:
        return values[0]
    if not first.is_scalar(indices[0]):
        return torch.cat(values)
    rows = [float((which.stop - which.start) * (results.cut.micro_rows or 1)) for results, which in parts]
    return first.reduced(indices[0], torch.stack(values), rows)
