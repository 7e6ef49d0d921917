"""What makes a plan fit: single changes, each priced, and all that help together where none is enough."""

from dataclasses import replace
from typing import Iterator, List, Optional, Tuple

from softipu.capture.update import OptimizerSpec
from softipu.cost import price
from softipu.errors import Error
from softipu.hardware import CALIBRATION, System
from softipu.planner.micro_batches import MicroBatches
from softipu.planner.splitter import Split, Splitter, learnt_factors
from softipu.planner.stage_costs import Setting, StageCosts
from softipu.planner.units import units_of
from softipu.report.cost_report import CostReport, IpuMemory
from softipu.report.plan import Plan, Stage
from softipu.report.plan_report import Remedy
from softipu.report.units import MEBIBYTES
from softipu.report.words import numbered

_SMALL_PROPORTION = 0.2
_MOST = 5
Change = Tuple[str, Plan]


def remedies(batches: MicroBatches, optimizer: Optional[OptimizerSpec], report: CostReport, system: System) -> Tuple[Remedy, ...]:
    """Changes of the plan of ``report`` that take memory off its fullest IPU: those that are enough first, the cheapest of them in front.

    Where none is enough alone, the last one is several of them together.
    """
    return _Advice(batches, optimizer, report, system).remedies()


class _Advice:
    def __init__(self, batches: MicroBatches, optimizer: Optional[OptimizerSpec], report: CostReport, system: System) -> None:
        self._batches, self._optimizer, self._report, self._system = batches, optimizer, report, system
        self._plan = report.plan
        self._workload = batches.at(report.plan.micro_batch)
        self._units = units_of(self._workload, batches.containers)

    def remedies(self) -> Tuple[Remedy, ...]:
        priced = [self._remedy(text, plan) for text, plan in self._changes()]
        useful = [r for r in priced if r is not None and r.freed_bytes > 0]
        ranked = sorted(useful, key=lambda r: -r.items_per_second)
        enough = [r for r in ranked if r.fits]
        if enough:
            return tuple(enough[:_MOST])
        together = self._together(ranked)
        return (*ranked[: _MOST - 1], together) if together is not None else tuple(ranked[:_MOST])

    def _changes(self) -> Iterator[Change]:
        plan = self._plan
        yield from self._recompute()
        yield from self._smaller_micro_batch()
        if self._optimizer is not None and not plan.optimizer_state_off_chip:
            yield "optimizer state off chip", replace(plan, optimizer_state_off_chip=True)
        if self._optimizer is not None and plan.replicas > 1 and not plan.replicated_tensor_sharding:
            yield "replicated tensor sharding of the optimizer state", replace(plan, replicated_tensor_sharding=True)
        most = max(plan.available_memory_proportion)
        if most > _SMALL_PROPORTION:
            smaller = tuple(min(p, _SMALL_PROPORTION) for p in plan.available_memory_proportion)
            yield f"available memory proportion {most:g} -> {_SMALL_PROPORTION:g}", replace(plan, available_memory_proportion=smaller)
        yield from self._move_a_layer()
        yield from self._other_stages()

    def _recompute(self) -> Iterator[Change]:
        if self._optimizer is None or not self._units.layers:
            return
        full = {memory.ipu for memory in self._report.memory if not memory.fits}
        found = [i for i, stage in enumerate(self._plan.stages) if stage.ipu in full and not stage.recompute]
        if found:
            stages = tuple(replace(stage, recompute=True) if i in found else stage for i, stage in enumerate(self._plan.stages))
            text = "recompute " + ("activations" if len(self._plan.stages) == 1 else numbered("stage", found))
            yield text, replace(self._plan, stages=stages, checkpoints=self._plan.checkpoints or self._units.layers)

    def _smaller_micro_batch(self) -> Iterator[Change]:
        """Half as many items, and twice the accumulation, so that a weight update takes the same number."""
        n = self._plan.micro_batch
        while n > 1 and n % 2 == 0:
            n //= 2
            times = self._plan.micro_batch // n
            trains = self._optimizer is not None
            accumulation = self._plan.gradient_accumulation * (times if trains else 1)
            iterations = self._plan.device_iterations * (1 if trains else times)
            plan = replace(self._plan, micro_batch=n, gradient_accumulation=accumulation, device_iterations=iterations)
            yield f"micro-batch {self._plan.micro_batch} -> {n}", plan

    def _move_a_layer(self) -> Iterator[Change]:
        """The last unit of the fullest IPU to the next, or its first to the one before."""
        paths = list(self._units.paths)
        stages = self._plan.stages
        worst = self._report.worst_ipu.ipu
        if any(stage.begin not in paths for stage in stages):
            return
        begins = [paths.index(stage.begin) for stage in stages]
        for i, stage in enumerate(stages):
            if stage.ipu != worst:
                continue
            if i + 1 < len(stages) and begins[i + 1] - begins[i] > 1:
                path = paths[begins[i + 1] - 1]
                yield self._moved(i + 1, path, path)
            if i > 0 and (begins[i + 1] if i + 1 < len(stages) else len(paths)) - begins[i] > 1:
                path = paths[begins[i] + 1]
                yield self._moved(i, path, stage.begin)

    def _moved(self, stage: int, begin: str, what: str) -> Change:
        stages = self._plan.stages
        changed = tuple(Stage(begin, s.ipu, s.recompute) if i == stage else s for i, s in enumerate(stages))
        to = stages[stage].ipu if what == begin else stages[stage - 1].ipu
        return f"move {what} to IPU {to} ({MEBIBYTES.full(_free(self._report.memory[to]))} free)", replace(self._plan, stages=changed)

    def _other_stages(self) -> Iterator[Change]:
        """Better stages on as many IPUs, or on twice, four times ... as many with fewer replicas where the system has no more."""
        costs = StageCosts(self._workload, self._units, self._optimizer, self._plan, self._system, CALIBRATION)
        splitter = Splitter(costs)
        share = 0.0 if self._plan.optimizer_state_off_chip else 1.0
        n_ipus = self._plan.n_ipus_per_replica
        while n_ipus <= self._system.n_ipus:
            plan = self._split(splitter, n_ipus, share)
            if plan is not None:
                yield f"split over {n_ipus} IPUs" if n_ipus != self._plan.n_ipus_per_replica else f"begin stages at {_begins(plan)}", plan
                if self._report_of(plan).fits:
                    return
            n_ipus *= 2

    def _split(self, splitter: Splitter, n_ipus: int, share: float) -> Optional[Plan]:
        if n_ipus == 1:
            return None
        factors: Tuple[float, ...] = ()
        for _ in range(4):
            split = splitter.fastest(n_ipus, Setting(share, self._optimizer is not None, True, factors))
            if split is None:
                return None
            plan = self._with_stages(split, n_ipus)
            report = self._report_of(plan)
            if report.fits:
                return plan
            factors = learnt_factors(factors, report, split)
        return None

    def _with_stages(self, split: Split, n_ipus: int) -> Plan:
        plan, stages = self._plan, split.stages
        replicas = max(1, min(plan.replicas, self._system.n_ipus // n_ipus))
        n_micro = plan.gradient_accumulation * plan.replicas // replicas if self._optimizer is not None else 1
        return replace(
            plan,
            stages=stages,
            replicas=replicas,
            gradient_accumulation=max(n_micro, 2 * len(stages) - 1) if self._optimizer is not None else 1,
            device_iterations=plan.device_iterations if self._optimizer is not None else max(plan.device_iterations, len(stages)),
            checkpoints=split.checkpoints,
            available_memory_proportion=plan.available_memory_proportion[:1],
        )

    def _together(self, ranked: List[Remedy]) -> Optional[Remedy]:
        """Takes changes over from plans that help, until it fits; those of one kind exclude each other."""
        plan, texts = self._plan, []  # type: Plan, List[str]
        for remedy in ranked:
            changed = {name for name in Plan.__dataclass_fields__ if getattr(remedy.plan, name) != getattr(self._plan, name)}
            if any(getattr(plan, name) != getattr(self._plan, name) for name in changed - {"checkpoints"}):
                continue
            candidate = replace(plan, **{name: getattr(remedy.plan, name) for name in changed})
            found = self._remedy("together: " + "; ".join([*texts, remedy.text]), candidate)
            if found is None:
                continue
            plan, texts = candidate, [*texts, remedy.text]
            if found.fits:
                return found if len(texts) > 1 else None
        return None

    def _remedy(self, text: str, plan: Plan) -> Optional[Remedy]:
        try:
            report = self._report_of(plan)
        except Error:  # a plan that the system cannot have
            return None
        before, after = self._report.worst_ipu, report.worst_ipu
        freed = (before.worst_tile_bytes - after.worst_tile_bytes) * before.n_tiles
        return Remedy(text, plan, freed, report.items_per_second, report.fits)

    def _report_of(self, plan: Plan) -> CostReport:
        return price(self._batches.at(plan.micro_batch), self._optimizer, plan, self._system)


def _free(memory: IpuMemory) -> float:
    return max(0.0, (memory.tile_available_bytes - memory.worst_tile_bytes) * memory.n_tiles)


def _begins(plan: Plan) -> str:
    return ", ".join(stage.begin for stage in plan.stages[1:])
