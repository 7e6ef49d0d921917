"""Pipeline cycles of a step: ramp up, steady state, ramp down, with stages of unequal time.

A training pipeline of S stages has 2 S - 1: forward stages 0 to S - 1, of which the last runs backward at once, then backward stages
S - 2 to 0. Micro-batch m runs forward in stage s in cycle m + s, and backward in cycle m + 2 (S - 1) - s. A cycle lasts as long as the
IPU with most to do in it, so G micro-batches take G + 2 (S - 1) cycles.
"""

from dataclasses import dataclass
from typing import List, Sequence


@dataclass(frozen=True)
class StageSeconds:
    """IPU of a stage, and the time of its forward and backward pass of one micro-batch."""

    ipu: int
    forward: float
    backward: float


@dataclass(frozen=True)
class PipelineTime:
    """Time of one step's micro-batches.

    Attributes:
        seconds: of all cycles.
        steady_seconds: of a cycle in which every stage works.
        ramp_seconds: of the cycles in which not every stage works.
        n_cycles: cycles in all.
    """

    seconds: float
    steady_seconds: float
    ramp_seconds: float
    n_cycles: int

    def bubble_seconds(self, n_micro_batches: int) -> float:
        """What the step takes longer than its micro-batches at the steady rate."""
        return self.seconds - n_micro_batches * self.steady_seconds


def stash_depth(stage: int, n_stages: int) -> int:
    """Micro-batches whose activations a stage keeps in a training pipeline: 2 (stages to the end) + 1."""
    return 2 * (n_stages - 1 - stage) + 1


def pipeline_time(stages: Sequence[StageSeconds], n_micro_batches: int, *, training: bool, overhead: float = 0.0) -> PipelineTime:
    """The time of ``n_micro_batches``, each cycle taking ``overhead`` besides."""
    steady = _cycle(stages, [True] * len(stages), [training] * len(stages)) + overhead
    n_stages = len(stages)
    depth = 2 * (n_stages - 1) if training else n_stages - 1
    n_cycles = n_micro_batches + depth
    first_steady, last_steady = depth, n_micro_batches - 1
    if first_steady > last_steady:
        each = [_at(stages, cycle, n_micro_batches, training) + overhead for cycle in range(n_cycles)]
        return PipelineTime(sum(each), steady, sum(each), n_cycles)
    ramp = sum(_at(stages, c, n_micro_batches, training) + overhead for c in [*range(depth), *range(n_micro_batches, n_cycles)])
    return PipelineTime(ramp + (n_micro_batches - depth) * steady, steady, ramp, n_cycles)


def _at(stages: Sequence[StageSeconds], cycle: int, n_micro_batches: int, training: bool) -> float:
    last = len(stages) - 1
    forward = [0 <= cycle - s < n_micro_batches for s in range(len(stages))]
    backward = [training and 0 <= cycle - (2 * last - s) < n_micro_batches for s in range(len(stages))]
    return _cycle(stages, forward, backward)


def _cycle(stages: Sequence[StageSeconds], forward: List[bool], backward: List[bool]) -> float:
    busy = [0.0] * (1 + max(stage.ipu for stage in stages))
    for stage, runs_forward, runs_backward in zip(stages, forward, backward):
        busy[stage.ipu] += stage.forward * runs_forward + stage.backward * runs_backward
    return max(busy)
