"""When each IPU of a replica works on which micro-batch during one weight update, laid out from the stages' times.

A training pipeline of S stages sends micro-batch m through the forward pass of stage s in cycle m + s and through its backward pass
in cycle m + 2 (S - 1) - s; every cycle lasts as long as the slowest IPU's work in it. Neighbouring stages on one IPU count as one.
"""

from dataclasses import dataclass
from typing import Iterator, List, Tuple

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


def pipeline_depth(report: CostReport) -> int:
    """Stages of the pipeline, neighbours on one IPU counted as one."""
    return len(_merged(report))


def n_cycles(report: CostReport) -> int:
    """Turns between two weight updates."""
    if report.plan.schedule is Schedule.SHARDED:
        return report.plan.gradient_accumulation
    depth = pipeline_depth(report)
    return report.plan.gradient_accumulation + (2 * (depth - 1) if report.training else depth - 1)


def cycle(report: CostReport, index: int) -> Cycle:
    """One turn of the pipeline; with the sharded schedule one micro-batch, one stage after another."""
    if report.plan.schedule is Schedule.SHARDED:
        return _sharded(report, index)
    merged = _merged(report)
    depth, n_micro = len(merged), report.plan.gradient_accumulation
    length = report.time.cycle_seconds
    start = index * length
    used = dict.fromkeys(range(report.plan.n_ipus_per_replica), start)
    slices: List[Slice] = []
    turns = [(s, index - s, True) for s in range(depth)]
    if report.training:
        turns += [(s, index - 2 * (depth - 1) + s, False) for s in reversed(range(depth))]
    for position, micro_batch, is_forward in turns:
        if 0 <= micro_batch < n_micro:
            for stage in merged[position] if is_forward else reversed(merged[position]):
                for direction, seconds in _parts(stage, is_forward):
                    slices.append(Slice(stage.ipu, stage.stage, micro_batch, direction, used[stage.ipu], seconds))
                    used[stage.ipu] += seconds
    ramp = depth - 1 if not report.training else 2 * (depth - 1)
    part = "ramp up" if index < ramp else "ramp down" if index >= n_micro else "steady"
    return Cycle(index, start, length, part, tuple(slices))


def _sharded(report: CostReport, index: int) -> Cycle:
    at = start = index * sum(stage.seconds for stage in report.stages)
    slices: List[Slice] = []
    turns = [(stage, True) for stage in report.stages]
    if report.training:
        turns += [(stage, False) for stage in reversed(report.stages)]
    for stage, is_forward in turns:
        for direction, seconds in _parts(stage, is_forward):
            slices.append(Slice(stage.ipu, stage.stage, index, direction, at, seconds))
            at += seconds
    return Cycle(index, start, at - start, "steady", tuple(slices))


def _parts(stage: StageTime, is_forward: bool) -> Iterator[Tuple[str, float]]:
    if is_forward:
        yield "forward", Estimate.sum(stage.forward.values()).total
        return
    if stage.recompute_seconds:
        yield "recompute", stage.recompute_seconds
    yield "backward", Estimate.sum(stage.backward.values()).total - stage.recompute_seconds


def _merged(report: CostReport) -> List[List[StageTime]]:
    """Stages in order, neighbours on one IPU together."""
    found: List[List[StageTime]] = []
    for stage in report.stages:
        if found and found[-1][-1].ipu == stage.ipu:
            found[-1].append(stage)
        else:
            found.append([stage])
    return found


def shown_cycles(report: CostReport, most: int) -> Tuple[List[Cycle], int]:
    """At most ``most`` turns, left out in the middle of the steady part, and how many were left out."""
    total = n_cycles(report)
    if total <= most:
        return [cycle(report, i) for i in range(total)], 0
    head = most - most // 2
    tail = most // 2
    return [cycle(report, i) for i in (*range(head), *range(total - tail, total))], total - head - tail
