"""What a step costs on a system under a plan."""

from dataclasses import dataclass, replace
from typing import Dict, Optional, Tuple, Union

from softipu.capture.update import OptimizerSpec, Update
from softipu.cost.memory import StageMemory, memory_of, memory_of_stages
from softipu.cost.stage_time import StageCycles
from softipu.cost.stages import StageOps, split
from softipu.cost.step_time import modules_of, price_stages, time_of
from softipu.cost.update_work import spec_of
from softipu.cost.workload import Workload, read_step
from softipu.errors import Error
from softipu.graph import Step
from softipu.hardware import CALIBRATION, Calibration, System
from softipu.report.cost_report import CostReport, ModuleTime
from softipu.report.plan import Plan

_ALWAYS = (
    "code, vertex state and exchange sequences: 3,000 bytes a tile for each op family and 200 for each round of compute and exchange",
    "3 % of a tile's memory stays empty between buffers that need banks of their own",
)


def _assumptions(plan: Plan, system: System, *, training: bool) -> Tuple[str, ...]:
    """What was assumed for this plan, in sentences."""
    found = list(_ALWAYS)
    if plan.optimizer_state_off_chip:
        found.append(f"streaming memory moves {system.streaming_bytes_per_second / 1e9:g} GB/s for each IPU of a machine")
    if training and plan.n_ipus > system.n_ipus_per_rack:
        found.append(f"each step of an all-reduce between racks takes {system.gateway_hop_seconds * 1e6:g} µs")
    if not training:
        found.append("calls for inference are queued, so that the pipeline stays full and the host's own time is hidden")
    return tuple(found)


def price(
    step: Union[Step, Workload],
    optimizer: Union[Update, OptimizerSpec, None],
    plan: Plan,
    system: System,
    calibration: Calibration = CALIBRATION,
) -> CostReport:
    """Memory and time of ``plan`` on ``system``.

    Args:
        step: a captured step, or its workload from ``read_step`` when several plans are priced.
        optimizer: of a training step, as update graph or as spec; None for inference.
        plan: its micro-batch must be that of the step.
        system: from ``softipu.hardware``.
        calibration: the fitted factors.

    Returns:
        A report, also when the plan does not fit.

    Raises:
        UnknownOpError: an op without a work rule.
        Error: a plan that names modules which run no op, needs more IPUs than the system has, or a training step without optimizer.
    """
    workload = step if isinstance(step, Workload) else read_step(step)
    return Pricing(workload, optimizer, system, calibration).of(plan)


@dataclass(frozen=True)
class _Layout:
    """What does not depend on how often a micro-batch is repeated, on replicas, or on where the optimizer's state lies."""

    stages: Tuple[StageOps, ...]
    cycles: Tuple[StageCycles, ...]
    memory: Tuple[StageMemory, ...]
    modules: Tuple[ModuleTime, ...]


class Pricing:
    """Prices several plans of one workload; those with the same stages share what is the same.

    Args:
        as those of ``price``.
    """

    def __init__(
        self, workload: Workload, optimizer: Union[Update, OptimizerSpec, None], system: System, calibration: Calibration = CALIBRATION
    ) -> None:
        if workload.training and optimizer is None:
            raise Error("A training step is priced with its optimizer: give the update graph or its OptimizerSpec.")
        self._workload, self._system, self._calibration = workload, system, calibration
        self._spec: Optional[OptimizerSpec] = spec_of(optimizer) if optimizer is not None and workload.training else None
        self._layouts: Dict[Plan, _Layout] = {}

    def of(self, plan: Plan) -> CostReport:
        """As ``price`` does."""
        workload, system = self._workload, self._system
        if plan.n_ipus > system.n_ipus:
            raise Error(
                f"The plan takes {plan.n_ipus_per_replica} IPUs x {plan.replicas} replicas = {plan.n_ipus}, "
                f"but {system.name} has {system.n_ipus}. Use fewer replicas or stages, or a larger system."
            )
        layout = self._layout(plan)
        time = time_of(workload, layout.stages, layout.cycles, self._spec, plan, system, self._calibration)
        return CostReport(
            system=system.name,
            ipu=system.ipu.name,
            training=workload.training,
            plan=plan,
            memory=memory_of(workload, layout.stages, layout.memory, self._spec, plan, system),
            stages=time.stages,
            modules=layout.modules,
            time=time.step,
            items_per_second=time.items_per_second,
            assumptions=_assumptions(plan, system, training=workload.training),
        )

    def _layout(self, plan: Plan) -> _Layout:
        key = replace(
            plan, gradient_accumulation=min(2, plan.gradient_accumulation), replicas=1, device_iterations=1,
            optimizer_state_off_chip=False, replicated_tensor_sharding=False,
        )  # fmt: skip
        if key not in self._layouts:
            workload, system = self._workload, self._system
            stages = split(workload, plan)
            cycles = price_stages(workload, stages, plan, system, self._calibration)
            modules = modules_of(stages, cycles, system.ipu.clock_hz)
            self._layouts[key] = _Layout(stages, cycles, memory_of_stages(workload, stages, cycles, plan), modules)
        return self._layouts[key]
