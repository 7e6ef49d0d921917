"""The splits of a search: for every micro-batch, number of IPUs and bound of temporary memory."""

from dataclasses import replace
from typing import Dict, Optional, Tuple

from softipu.capture.update import OptimizerSpec
from softipu.hardware import Calibration, System
from softipu.planner.micro_batches import MicroBatches
from softipu.planner.splitter import Split, Splitter
from softipu.planner.stage_costs import Setting, StageCosts
from softipu.planner.units import Units, units_of
from softipu.report.plan import Plan


class Splits:
    """Asks the dynamic programme.

    Args:
        batches: workloads by micro-batch.
        optimizer: None for inference.
        base: a plan with what is not searched.
        proportions: bounds of temporary memory to try.
        system, calibration: of the machine.

    Attributes:
        accumulates: whether gradients of several micro-batches are added up, which takes accumulators.
    """

    def __init__(
        self,
        batches: MicroBatches,
        optimizer: Optional[OptimizerSpec],
        base: Plan,
        proportions: Tuple[float, ...],
        system: System,
        calibration: Calibration,
    ) -> None:
        self._batches, self._optimizer, self._base, self._system, self._calibration = batches, optimizer, base, system, calibration
        self.proportions = tuple(sorted(proportions))
        self.accumulates = optimizer is not None
        self._splitters: Dict[Tuple[int, float], Splitter] = {}
        self._units: Dict[int, Units] = {}

    def fastest(self, micro_batch: int, n_ipus: int, *, off_chip: bool, pipelined: bool) -> Optional[Tuple[Split, float]]:
        """The fastest split that fits by the sums, with its bound of temporary memory."""
        setting = self._setting(off_chip=off_chip, pipelined=pipelined)
        best: Optional[Tuple[Split, float]] = None
        for proportion in self.proportions:
            found = self._ask(micro_batch, proportion, n_ipus, setting)
            if found is None and best is None:
                return None  # more temporary memory would fit even less
            if found is not None and (best is None or found.cycle_seconds < best[0].cycle_seconds):
                best = found, proportion
        return best

    def leanest(self, micro_batch: int, n_ipus: int, *, off_chip: bool, pipelined: bool) -> Optional[Tuple[Split, float]]:
        """The split that needs least, with its bound of temporary memory; None for more IPUs than places to cut."""
        setting = self._setting(off_chip=off_chip, pipelined=pipelined)
        found = self._splitter(micro_batch, self.proportions[0]).leanest(n_ipus, setting)
        return None if found is None else (found, self.proportions[0])

    def again(
        self, micro_batch: int, proportion: float, n_ipus: int, *, off_chip: bool, pipelined: bool, factors: Tuple[float, ...]
    ) -> Optional[Split]:
        """The fastest split, with factors that prices have taught."""
        setting = replace(self._setting(off_chip=off_chip, pipelined=pipelined), factors=factors)
        return self._ask(micro_batch, proportion, n_ipus, setting)

    def least_cycle_seconds(self, micro_batch: int, n_ipus: int) -> float:
        """No split has a shorter cycle."""
        return min(self._splitter(micro_batch, p).least_cycle_seconds(n_ipus) for p in self.proportions)

    def depth(self, micro_batch: int, n_ipus: int) -> int:
        """Stages of a pipeline over so many IPUs."""
        return self._splitter(micro_batch, self.proportions[0]).depth(n_ipus)

    def _ask(self, micro_batch: int, proportion: float, n_ipus: int, setting: Setting) -> Optional[Split]:
        splitter = self._splitter(micro_batch, proportion)
        return splitter.fastest(n_ipus, setting) if setting.pipelined else splitter.one_at_a_time(n_ipus, setting)

    def _setting(self, *, off_chip: bool, pipelined: bool) -> Setting:
        return Setting(0.0 if off_chip else 1.0, self.accumulates, pipelined)

    def _splitter(self, micro_batch: int, proportion: float) -> Splitter:
        key = (micro_batch, proportion)
        if key not in self._splitters:
            workload = self._batches.at(micro_batch)
            if micro_batch not in self._units:
                self._units[micro_batch] = units_of(workload, self._batches.containers)
            plan = replace(self._base, available_memory_proportion=(proportion,))
            costs = StageCosts(workload, self._units[micro_batch], self._optimizer, plan, self._system, self._calibration)
            self._splitters[key] = Splitter(costs)
        return self._splitters[key]
