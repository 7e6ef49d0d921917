"""One choice of a search: the best stages for a micro-batch, a number of IPUs, and a place for the optimizer's state."""

from dataclasses import dataclass, replace
from typing import Callable, List, Optional, Tuple

from softipu.planner.split import Choice, leanest, split
from softipu.planner.stage_costs import Setting, StageCosts, tied_tail
from softipu.report.cost_report import CostReport
from softipu.report.plan import Stage


@dataclass(frozen=True)
class Split:
    """Stages with what the planner expects of them.

    Attributes:
        stages: for a plan.
        cycle_seconds: of a micro-batch on the slowest IPU.
        tile_fractions: of the fullest tile of each IPU.
        checkpoints: modules whose outputs are kept where a stage recomputes.
        pipelined: whether the IPUs of a replica work at the same time; otherwise a cycle is the work of all of them.
    """

    stages: Tuple[Stage, ...]
    cycle_seconds: float
    tile_fractions: Tuple[float, ...]
    checkpoints: Tuple[str, ...] = ()
    pipelined: bool = True

    @property
    def tile_fraction(self) -> float:
        """Of the fullest tile of all."""
        return max(self.tile_fractions)

    @property
    def recomputes(self) -> bool:
        return any(stage.recompute for stage in self.stages)


class Splitter:
    """The best stages of one workload.

    Args:
        costs: of its units.
    """

    def __init__(self, costs: StageCosts) -> None:
        self._costs = costs
        self._tail = tied_tail(costs.shared, len(costs.units))

    def least_cycle_seconds(self, n_ipus: int) -> float:
        """No split over so many IPUs has a shorter cycle."""
        return self._costs.seconds(0, len(self._costs.units), recompute=False) / n_ipus

    def depth(self, n_ipus: int) -> int:
        """Stages over so many IPUs."""
        return n_ipus + (self._tail is not None and n_ipus > 1)

    def fastest(self, n_ipus: int, setting: Setting) -> Optional[Split]:
        """The split with the shortest cycle that fits; None when none does."""
        return self._best(n_ipus, setting, fits=True)

    def one_at_a_time(self, n_ipus: int, setting: Setting) -> Optional[Split]:
        """Stages that take turns, so that none stashes for more than one micro-batch: slow, for what does not fit a pipeline."""
        found = self._best(n_ipus, replace(setting, pipelined=False), fits=False)
        return found if found is not None and found.tile_fraction <= 1 else None

    def leanest(self, n_ipus: int, setting: Setting) -> Optional[Split]:
        """The split whose fullest tile is emptiest; None for more IPUs than units."""
        return self._best(n_ipus, setting, fits=False)

    def _best(self, n_ipus: int, setting: Setting, *, fits: bool) -> Optional[Split]:
        n_units = len(self._costs.units)
        tail = self._tail if n_ipus > 1 else None
        # The head of a tied model runs on the first IPU: an extra stage there, at the end of the pipeline.
        n_split = n_units if tail is None else tail
        depth = self.depth(n_ipus)
        solve = split if fits else leanest
        costs = self._costs
        bounds = costs.bounds(setting)

        def choices(begin: int, end: int, stage: int) -> List[Choice]:
            own = costs.needs(begin, end, stage, depth, setting)
            if tail is not None and stage == 0:
                # What comes last runs backward at once, so recomputation would gain nothing.
                last = costs.without_recomputation(tail, n_units, depth, setting)
                held = last.held - costs.common(begin, end, tail)
                own = [replace(n, seconds=n.seconds + last.seconds, held=n.held + held, peak=max(n.peak, last.peak)) for n in own]
            return [
                Choice(begin, end, n.seconds, costs.tile_fraction(n.held, n.peak, stage, setting), n.recompute, n.checkpoints) for n in own
            ]

        found = solve(n_split, n_ipus, choices, bounds)
        if found is None:
            return None
        found = _without_needless_recomputation(found, choices)
        paths = costs.units.paths
        stages = [Stage(paths[choice.begin], ipu, choice.recompute) for ipu, choice in enumerate(found)]
        if tail is not None:
            stages.append(Stage(paths[tail], 0, False))
        kept = tuple(path for c in found if c.recompute and c.checkpoints for path in costs.units.layers_in(c.begin, c.end))
        cycle = max(c.seconds for c in found) if setting.pipelined else sum(c.seconds for c in found)
        return Split(tuple(stages), cycle, tuple(c.tile_fraction for c in found), kept, setting.pipelined)


def _without_needless_recomputation(found: Tuple[Choice, ...], choices: Callable[[int, int, int], List[Choice]]) -> Tuple[Choice, ...]:
    """Each stage as fast as it can be within the fullest tile of all: to recompute where there is room only costs energy."""
    fullest = max(choice.tile_fraction for choice in found)
    result = []
    for stage, choice in enumerate(found):
        own = [c for c in choices(choice.begin, choice.end, stage) if c.tile_fraction <= fullest]
        result.append(min(own, key=lambda c: c.seconds))
    return tuple(result)


def learnt_factors(before: Tuple[float, ...], report: CostReport, split: Split) -> Tuple[float, ...]:
    """By IPU, how much more the cost model's price is than the sums; a little more still, as tensors of the next split lie otherwise.

    Never less: what a stage needs less than expected it may need when it recomputes, or does not.
    """
    factors = before or (1.0,) * len(split.tile_fractions)
    used = [memory.worst_tile_bytes / memory.tile_available_bytes for memory in report.memory]
    return tuple(factor * max(1.0, 1.002 * now / expected) for factor, now, expected in zip(factors, used, split.tile_fractions))
