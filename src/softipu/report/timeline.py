"""When each IPU of a replica works on which micro-batch during one weight update, laid out from the stages' times.

A training pipeline of S stages sends micro-batch m through the forward pass of stage s in cycle m + s and through its backward pass
in cycle m + 2 (S - 1) - s; a cycle lasts as long as the IPU with most to do in it, and what every cycle waits for the host.
"""

from dataclasses import dataclass
from typing import Dict, Iterator, List, Tuple

from softipu.report.cost_report import CostReport, StageTime
from softipu.report.estimate import Estimate
from softipu.report.plan import Schedule


@dataclass(frozen=True)
class Slice:
    """Work of one IPU on one micro-batch.

    Attributes:
        ipu: within the replica.
        stage: position in the plan.
        micro_batch: counted from 0.
        direction: "forward", "recompute" or "backward".
        start, seconds: from the begin of the update, and how long.
    """

    ipu: int
    stage: int
    micro_batch: int
    direction: str
    start: float
    seconds: float


@dataclass(frozen=True)
class Cycle:
    """One turn of the pipeline.

    Attributes:
        index: counted from 0.
        start, seconds: from the begin of the update, and how long.
        part: "ramp up", "steady" or "ramp down".
        slices: work in it.
    """

    index: int
    start: float
    seconds: float
    part: str
    slices: Tuple[Slice, ...]


class Timeline:
    """The cycles of one weight update of a report (of one device iteration in inference)."""

    def __init__(self, report: CostReport) -> None:
        self.report = report
        self.sharded = report.plan.schedule is Schedule.SHARDED
        self.n_micro_batches = report.plan.gradient_accumulation if report.training else report.plan.device_iterations
        self.depth = 0 if self.sharded else (len(report.stages) - 1) * (2 if report.training else 1)
        self.n_cycles = self.n_micro_batches + self.depth
        steady = self._length(self._turns(self.depth, always=True))
        self._waiting = max(0.0, report.time.cycle_seconds - steady)
        self._steady = steady + self._waiting
        # Cycles of the ramps are shorter; in between all are alike.
        self._head = [self._length(self._turns(i)) + self._waiting for i in range(min(self.depth, self.n_cycles))]
        self._tail_from = max(self.n_micro_batches, len(self._head))
        self._tail = [self._length(self._turns(i)) + self._waiting for i in range(self._tail_from, self.n_cycles)]

    def cycle(self, index: int) -> Cycle:
        """One turn; with the sharded schedule one micro-batch, one stage after another."""
        head, n_steady = len(self._head), self._tail_from - len(self._head)
        start = (
            sum(self._head[:index])
            + min(max(0, index - head), n_steady) * self._steady
            + sum(self._tail[: max(0, index - self._tail_from)])
        )
        seconds = self._head[index] if index < head else self._tail[index - self._tail_from] if index >= self._tail_from else self._steady
        part = "ramp up" if index < self.depth else "ramp down" if index >= self.n_micro_batches else "steady"
        slices = []
        for stage, micro_batch, direction, at, length in self._placed(self._turns(index)):
            slices.append(Slice(stage.ipu, stage.stage, micro_batch, direction, start + at, length))
        return Cycle(index, start, seconds, part, tuple(slices))

    def shown(self, most: int) -> Tuple[List[Cycle], int]:
        """At most ``most`` turns, left out in the middle, and how many were left out."""
        if self.n_cycles <= most:
            return [self.cycle(i) for i in range(self.n_cycles)], 0
        head, tail = most - most // 2, most // 2
        return [self.cycle(i) for i in (*range(head), *range(self.n_cycles - tail, self.n_cycles))], self.n_cycles - head - tail

    def _turns(self, index: int, *, always: bool = False) -> List[Tuple[StageTime, int, bool]]:
        """(stage, micro-batch, whether forward) of what runs in a cycle; ``always``: of a cycle in which every stage works."""
        stages = self.report.stages
        last = len(stages) - 1
        found = [(stage, index - (0 if self.sharded else s), True) for s, stage in enumerate(stages)]
        if self.report.training:
            found += [(stages[s], index - (0 if self.sharded else 2 * last - s), False) for s in reversed(range(len(stages)))]
        return [turn for turn in found if always or 0 <= turn[1] < self.n_micro_batches]

    def _placed(self, turns: List[Tuple[StageTime, int, bool]]) -> Iterator[Tuple[StageTime, int, str, float, float]]:
        """Each piece of work with its begin in the cycle: one after another on an IPU; with the sharded schedule on all of them."""
        used: Dict[int, float] = {}
        for stage, micro_batch, is_forward in turns:
            key = 0 if self.sharded else stage.ipu
            for direction, seconds in _parts(stage, is_forward):
                yield stage, micro_batch, direction, used.get(key, 0.0), seconds
                used[key] = used.get(key, 0.0) + seconds

    def _length(self, turns: List[Tuple[StageTime, int, bool]]) -> float:
        return max((at + seconds for _, _, _, at, seconds in self._placed(turns)), default=0.0)


def _parts(stage: StageTime, is_forward: bool) -> Iterator[Tuple[str, float]]:
    if is_forward:
        yield "forward", Estimate.sum(stage.forward.values()).total
        return
    if stage.recompute_seconds:
        yield "recompute", stage.recompute_seconds
    yield "backward", Estimate.sum(stage.backward.values()).total - stage.recompute_seconds
