"""The prices of a search: choices as plans, by the cost model, each plan once."""

from dataclasses import replace
from typing import Dict, Optional

from softipu.capture.update import OptimizerSpec
from softipu.cost.price import Pricing
from softipu.hardware import Calibration, System
from softipu.planner.choice import Choice
from softipu.planner.micro_batches import MicroBatches
from softipu.planner.space import Space, accumulation_for, least_accumulation
from softipu.report.cost_report import CostReport
from softipu.report.plan import Plan, Schedule


class Prices:
    """Prices choices.

    Args:
        batches: workloads by micro-batch.
        optimizer: None for inference.
        base: a plan with what is not searched.
        space: says how many items a weight update has.
        system, calibration: of the machine.
    """

    def __init__(
        self,
        batches: MicroBatches,
        optimizer: Optional[OptimizerSpec],
        base: Plan,
        space: Space,
        system: System,
        calibration: Calibration,
    ) -> None:
        self._batches, self._optimizer, self._base, self._space = batches, optimizer, base, space
        self._system, self._calibration = system, calibration
        self.accumulates = True  # or one micro-batch an update
        self._accumulations: Dict[int, int] = {}  # by stages: what was chosen last, to begin with
        self._priced: Dict[Plan, CostReport] = {}
        self._pricings: Dict[int, Pricing] = {}  # by micro-batch

    def __len__(self) -> int:
        """Plans priced."""
        return len(self._priced)

    def of(self, choice: Choice) -> CostReport:
        """With the wanted items per update, or with so many micro-batches that ramps and update hardly count."""
        plan = self.plan(choice)
        if not self.accumulates:
            return self.of_plan(self._repeated(plan, 1))
        wanted = self._space.items_per_update
        if wanted is not None and self._optimizer is not None:
            return self.of_plan(replace(plan, gradient_accumulation=max(1, wanted // (plan.micro_batch * plan.replicas))))
        n = max(2, 2 * self._least(plan), self._accumulations.get(len(plan.stages), 0))
        first = self.of_plan(self._repeated(plan, n))
        other = first.time.total.total - n * first.time.cycle_seconds
        most = self._space.most_items_per_update
        n = accumulation_for(plan, first.time.cycle_seconds, other, most_items=most, training=self._optimizer is not None)
        self._accumulations[len(plan.stages)] = n
        return self.of_plan(self._repeated(plan, n))

    def memory_of(self, choice: Choice) -> CostReport:
        """With as many micro-batches as fill the pipeline: memory is that of any larger number."""
        plan = self.plan(choice)
        return self.of_plan(self._repeated(plan, max(2, 2 * self._least(plan)) if self.accumulates else 1))

    def of_plan(self, plan: Plan) -> CostReport:
        """Of a plan as it is."""
        if plan not in self._priced:
            n = plan.micro_batch
            if n not in self._pricings:
                self._pricings[n] = Pricing(self._batches.at(n), self._optimizer, self._system, self._calibration)
            self._priced[plan] = self._pricings[n].of(plan)
        return self._priced[plan]

    def plan(self, choice: Choice) -> Plan:
        """The plan of a choice, accumulation left at 1."""
        return replace(
            self._base,
            stages=choice.split.stages,
            schedule=Schedule.PIPELINED if choice.split.pipelined else Schedule.SHARDED,
            micro_batch=choice.micro_batch,
            replicas=choice.replicas,
            checkpoints=choice.split.checkpoints,
            optimizer_state_off_chip=choice.off_chip,
            replicated_tensor_sharding=self._space.replicated_tensor_sharding and choice.replicas > 1 and self._optimizer is not None,
            available_memory_proportion=(choice.proportion,),
        )

    def _least(self, plan: Plan) -> int:
        return least_accumulation(plan, training=self._optimizer is not None)

    def _repeated(self, plan: Plan, n: int) -> Plan:
        trains = self._optimizer is not None
        return replace(plan, gradient_accumulation=n) if trains else replace(plan, gradient_accumulation=1, device_iterations=n)
