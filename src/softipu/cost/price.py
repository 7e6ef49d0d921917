"""What a step costs on a system under a plan."""

from typing import Optional, Tuple, Union

from softipu.capture.update import OptimizerSpec, Update
from softipu.cost.memory import price_memory
from softipu.cost.stages import split
from softipu.cost.step_time import modules_of, price_time
from softipu.cost.update_work import spec_of
from softipu.cost.workload import Workload, read_step
from softipu.errors import Error
from softipu.graph import Step
from softipu.hardware import CALIBRATION, Calibration, System
from softipu.report.cost_report import CostReport
from softipu.report.plan import Plan

ASSUMPTIONS: Tuple[str, ...] = (
    "code, vertex state and exchange sequences: 3,000 bytes a tile for each op family and 200 for each round of compute and exchange",
    "3 % of a tile's memory stays empty between buffers that need banks of their own",
    "streaming memory moves 10 GB/s for each IPU of a machine",
    "calls for inference are queued, so that the pipeline stays full and the host's own time is hidden",
)


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
    if workload.training and optimizer is None:
        raise Error("A training step is priced with its optimizer: give the update graph or its OptimizerSpec.")
    if plan.n_ipus > system.n_ipus:
        raise Error(
            f"The plan takes {plan.n_ipus_per_replica} IPUs x {plan.replicas} replicas = {plan.n_ipus}, "
            f"but {system.name} has {system.n_ipus}. Use fewer replicas or stages, or a larger system."
        )
    spec: Optional[OptimizerSpec] = spec_of(optimizer) if optimizer is not None and workload.training else None
    stages = split(workload, plan)
    time = price_time(workload, stages, spec, plan, system, calibration)
    memory = price_memory(workload, stages, time.cycles, spec, plan, system)
    return CostReport(
        system=system.name,
        ipu=system.ipu.name,
        training=workload.training,
        plan=plan,
        memory=memory,
        stages=time.stages,
        modules=modules_of(stages, time.cycles, system.ipu.clock_hz),
        time=time.step,
        items_per_second=time.items_per_second,
        assumptions=ASSUMPTIONS,
    )
