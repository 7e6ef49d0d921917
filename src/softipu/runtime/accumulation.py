"""Gradients of the micro-batches of one weight update, added up over accumulation steps and replicas."""

from typing import Dict, List, Mapping, Optional, Protocol, Sequence

import torch

from softipu.capture._torch_private import raw_op
from softipu.runtime.batch import BatchShape
from softipu.runtime.replica_groups import ReplicaGroups

_add = raw_op(torch.ops.aten._foreach_add_.List)


class Accumulation(Protocol):
    """Takes the gradients of micro-batches, and gives their sum."""

    def add(self, replica: int, gradients: Sequence[torch.Tensor]) -> None:
        """Takes the gradients of one micro-batch of a replica; they may be overwritten."""
        ...

    def total(self) -> List[torch.Tensor]:
        """The sum, and a new start."""
        ...


class PlainSum:
    """In the gradients' own types, in the order of the micro-batches."""

    def __init__(self) -> None:
        self._sum: List[torch.Tensor] = []

    def add(self, replica: int, gradients: Sequence[torch.Tensor]) -> None:
        if self._sum:
            _add(self._sum, list(gradients))
        else:
            self._sum = list(gradients)

    def total(self) -> List[torch.Tensor]:
        done, self._sum = self._sum, []
        return done


class FloatSum(PlainSum):
    """In float32 also where gradients are half."""

    def add(self, replica: int, gradients: Sequence[torch.Tensor]) -> None:
        super().add(replica, [g.float() if g.dtype == torch.float16 else g for g in gradients])


class HalfRunningMean:
    """Each replica keeps the mean of its micro-batches so far in half; the total is the sum that this stands for, in float32.

    That is what PopTorch does with float16 accumulators: a sum could overflow.
    """

    def __init__(self, shape: BatchShape) -> None:
        self._n_accumulated = shape.n_accumulated
        self._means: Dict[int, List[torch.Tensor]] = {}
        self._counts: Dict[int, int] = {}

    def add(self, replica: int, gradients: Sequence[torch.Tensor]) -> None:
        n = self._counts[replica] = self._counts.get(replica, 0) + 1
        before = self._means.get(replica)
        if before is None:
            self._means[replica] = [g.to(torch.float16) for g in gradients]
            return
        wide = [m.float() * ((n - 1) / n) + g.float() / n for m, g in zip(before, gradients)]
        self._means[replica] = [w.to(torch.float16) for w in wide]

    def total(self) -> List[torch.Tensor]:
        means = list(self._means.values())
        self._means, self._counts = {}, {}
        return [torch.stack([m.float() for m in one]).sum(0) * self._n_accumulated for one in zip(*means)]


class SumByGroup:
    """For parameters that differ between groups of replicas: a gradient [n_groups, ...] with the sum of each group's replicas."""

    def __init__(self, names: Sequence[str], groups: Mapping[str, ReplicaGroups]) -> None:
        self._groups: List[Optional[ReplicaGroups]] = [groups.get(name) for name in names]
        self._sum: List[torch.Tensor] = []

    def add(self, replica: int, gradients: Sequence[torch.Tensor]) -> None:
        spread = [g if groups is None else _at(groups.n_groups, groups.group_of(replica), g) for g, groups in zip(gradients, self._groups)]
        if self._sum:
            _add(self._sum, spread)
        else:
            self._sum = spread

    def total(self) -> List[torch.Tensor]:
        done, self._sum = self._sum, []
        return done


def _at(n_groups: int, group: int, gradient: torch.Tensor) -> torch.Tensor:
    spread = torch.zeros(n_groups, *gradient.shape, dtype=gradient.dtype)
    spread[group] = gradient
    return spread
