"""What a call of the device returned, micro-batch by micro-batch.

PopTorch joins the outputs of all micro-batches along their first dimension, in the order device iteration D, accumulation step G,
replica R; scalars become a vector. Here they are taken apart again, with the shapes that one micro-batch had at capture.

A **group** is the R micro-batches of one (d, g): what one batch is in a CPU run with the same effective batch.
"""

from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Tuple

import torch

_REDUCTIONS = {"sum": torch.sum, "max": torch.amax, "min": torch.amin}


@dataclass(frozen=True)
class OutputShape:
    """An output of one micro-batch: its shape and dtype as the step has them."""

    shape: Tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Cut:
    """How a call's host batch is cut.

    Attributes:
        n_iterations, n_accumulated, n_replicas: D, G and R.
        micro_rows: rows of a micro-batch, or None where the batch does not tell.
        n_real: micro-batches that hold data; the rest of the call only fills it up.
    """

    n_iterations: int
    n_accumulated: int
    n_replicas: int
    micro_rows: Optional[int]
    n_real: int

    @property
    def n_micro_batches(self) -> int:
        """All micro-batches of the call."""
        return self.n_iterations * self.n_accumulated * self.n_replicas

    @property
    def n_groups(self) -> int:
        """Groups with data in them."""
        return -(-self.n_real // self.n_replicas)

    def group(self, index: int) -> slice:
        """The micro-batches of a group that hold data."""
        return slice(index * self.n_replicas, min((index + 1) * self.n_replicas, self.n_real))


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

    def joined(self, index: int, which: slice, reduction: str = "mean") -> torch.Tensor:
        """One value for some micro-batches: rows one after another, scalars reduced.

        A floating scalar is averaged unless told otherwise; a whole one is a count and is summed; a truth value holds if all do.
        """
        values = self.micro_batches(index, which)
        if not self.is_scalar(index):
            return values.flatten(0, 1)
        if len(values) == 1:
            return values[0]
        if reduction in _REDUCTIONS:
            return _REDUCTIONS[reduction](values, 0).to(values.dtype)
        if values.dtype == torch.bool:
            return values.all()
        return values.mean() if values.is_floating_point() else values.sum().to(values.dtype)


def whole(parts: Sequence[Tuple[Results, slice]], index: int) -> torch.Tensor:
    """One output of several calls that together made up a host batch: rows one after another, scalars weighted by rows."""
    values = [results.joined(index, which) for results, which in parts]
    if len(values) == 1:
        return values[0]
    if not parts[0][0].is_scalar(index):
        return torch.cat(values)
    stacked = torch.stack(values)
    if stacked.dtype == torch.bool:
        return stacked.all()
    if not stacked.is_floating_point():
        return stacked.sum().to(stacked.dtype)
    weights: List[Any] = [(which.stop - which.start) * (results.cut.micro_rows or 1) for results, which in parts]
    scale = torch.tensor(weights, dtype=stacked.dtype)
    return (stacked * scale).sum() / scale.sum()
