"""Which micro-batches' results a call returns, and in what shape."""

from dataclasses import dataclass
from enum import Enum
from typing import List, Optional, Sequence, Tuple

import torch

from softipu.runtime.batch import BatchShape


class Returned(Enum):
    """What comes back of each output (PopTorch's output modes)."""

    FINAL = "final"  # of every replica the last micro-batch
    EVERY_N = "every_n"  # all micro-batches of every N-th device iteration
    ALL = "all"
    SUM = "sum"  # per replica, summed over its micro-batches


@dataclass(frozen=True)
class OutputRule:
    """An output mode with its period (EVERY_N only)."""

    mode: Returned
    period: int = 1

    def wants(self, shape: BatchShape, iteration: int, accumulated: int) -> bool:
        """Whether the micro-batches of this iteration and accumulation step are returned."""
        if self.mode is Returned.FINAL:
            return iteration == shape.n_iterations - 1 and accumulated == shape.n_accumulated - 1
        if self.mode is Returned.EVERY_N:
            return (iteration + 1) % self.period == 0
        return True

    def n_returned(self, shape: BatchShape) -> int:
        """How many micro-batches' values a call returns of each output."""
        if self.mode in (Returned.FINAL, Returned.SUM):
            return shape.n_replicas
        return shape.n_micro_batches // self.period


class Collector:
    """Collects one call's outputs by an OutputRule.

    A micro-batch's [mb, ...] becomes [factor * mb, ...]; a 0-d one becomes [factor], and stays 0-d when the factor is 1.
    ``shared`` marks outputs that share memory with weights, buffers or inputs: they are copied at once.
    """

    def __init__(self, rule: OutputRule, shape: BatchShape, shared: Sequence[bool]) -> None:
        self._rule, self._shape, self._shared = rule, shape, shared
        self._kept: List[List[torch.Tensor]] = [[] for _ in shared]
        self._sums: List[List[Optional[torch.Tensor]]] = [[None] * shape.n_replicas for _ in shared]

    def add_group(self, group: Sequence[Tuple[int, int, int]], outputs: Sequence[torch.Tensor]) -> None:
        """Takes the outputs [n, ...] of n micro-batches, given as (iteration, accumulation step, replica)."""
        if any(self._rule.wants(self._shape, iteration, accumulated) for iteration, accumulated, _ in group):
            single = [output.unbind(0) for output in outputs[: len(self._shared)]]
            for index, (iteration, accumulated, replica) in enumerate(group):
                self.add(iteration, accumulated, replica, [values[index] for values in single])

    def add(self, iteration: int, accumulated: int, replica: int, outputs: Sequence[torch.Tensor]) -> None:
        """Takes the outputs of one micro-batch; what follows them in the list is left alone."""
        if not self._rule.wants(self._shape, iteration, accumulated):
            return
        if self._rule.mode is Returned.SUM:
            for sums, value in zip(self._sums, outputs):
                before = sums[replica]
                sums[replica] = value.clone() if before is None else before + value
            return
        for kept, value, shared in zip(self._kept, outputs, self._shared):
            kept.append(value.clone() if shared else value)

    def result(self) -> List[torch.Tensor]:
        """One tensor per output."""
        if self._rule.mode is Returned.SUM:
            return [_joined([s for s in sums if s is not None]) for sums in self._sums]
        return [_joined(kept) for kept in self._kept]

    def result_or_none(self) -> Optional[torch.Tensor]:
        """The value of a single output; None when its rule kept none."""
        return self.result()[0] if any(self._kept) or any(v is not None for v in self._sums[0]) else None


def _joined(values: List[torch.Tensor]) -> torch.Tensor:
    if len(values) == 1:
        return values[0]
    return torch.stack(values) if values[0].dim() == 0 else torch.cat(values)
