"""Time of a step: stages, pipeline, all-reduce, weight update, host."""

from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from softipu.capture.update import OptimizerSpec
from softipu.cost import host_io, links
from softipu.cost.op_cost import op_cost
from softipu.cost.pipeline import StageSeconds, pipeline_time
from softipu.cost.stage_time import BACKWARD, FORWARD, StageCycles, price_stage, tiling_of
from softipu.cost.stages import StageOps
from softipu.cost.update_work import gradient_bytes, state_bytes, update_work
from softipu.cost.workload import Parameter, Workload
from softipu.graph import Role
from softipu.hardware import Calibration, System
from softipu.report.cost_report import ModuleTime, Phase, StageTime, StepTime
from softipu.report.estimate import ZERO, Estimate
from softipu.report.plan import Plan, Schedule


@dataclass(frozen=True)
class TimeReport:
    """What ``time_of`` finds: of the stages and of the step."""

    stages: Tuple[StageTime, ...]
    step: StepTime
    items_per_second: float
    cycles: Tuple[StageCycles, ...]


def price_stages(
    workload: Workload, stages: Sequence[StageOps], plan: Plan, system: System, calibration: Calibration
) -> Tuple[StageCycles, ...]:
    """The cycles of all stages: linear in ``vector_slowdown`` and ``superstep_cycles``, whatever the other factors are."""
    return tuple(price_stage(workload, s, plan, tiling_of(plan, s.stage.ipu, system.ipu), calibration) for s in stages)


def time_of(
    workload: Workload,
    stages: Sequence[StageOps],
    cycles: Tuple[StageCycles, ...],
    spec: Optional[OptimizerSpec],
    plan: Plan,
    system: System,
    calibration: Calibration,
) -> TimeReport:
    """Time of a step of ``plan`` on ``system``.

    Args:
        stages, cycles: what its IPUs do, and how long each takes for a micro-batch.
        spec: None for inference.
    """
    ipu = system.ipu
    timed = tuple(_stage_time(workload, s, c, plan, system) for s, c in zip(stages, cycles))
    seconds = [StageSeconds(t.ipu, _total(t.forward), _total(t.backward)) for t in timed]
    host = _host(workload, stages, plan, system, calibration)
    waiting = 0.0 if plan.n_io_tiles else host.total
    # An inference call runs as many micro-batches as it has iterations, one after another through the pipeline. Calls are queued, so
    # that one with too few iterations to fill the pipeline finds the next behind it.
    n_micro_batches = plan.gradient_accumulation if workload.training else plan.device_iterations
    stays_full = not workload.training and n_micro_batches < len(stages)
    busiest = max(range(plan.n_ipus_per_replica), key=lambda i: sum(s.forward + s.backward for s in seconds if s.ipu == i))
    if plan.schedule is Schedule.SHARDED:
        cycle = sum(s.forward + s.backward for s in seconds) + waiting
        total, ramp, n_cycles = n_micro_batches * cycle, 0.0, n_micro_batches
        working = timed
    else:
        pipeline = pipeline_time(seconds, n_micro_batches, training=workload.training, overhead=waiting)
        cycle, total, ramp, n_cycles = pipeline.steady_seconds, pipeline.seconds, pipeline.ramp_seconds, pipeline.n_cycles
        if stays_full:
            total, ramp, n_cycles = n_micro_batches * cycle, 0.0, n_micro_batches
        working = tuple(t for t in timed if t.ipu == busiest)
    # Host transfers that overlap still bound the rate.
    hidden = max(0.0, host.total * n_micro_batches - total) if plan.n_io_tiles else 0.0
    by_phase: Dict[Phase, Estimate] = dict.fromkeys(Phase, ZERO)
    for stage in working:
        for part in (stage.forward, stage.backward):
            for phase, estimate in part.items():
                by_phase[phase] = by_phase[phase] + estimate * n_micro_batches
    if not plan.n_io_tiles:
        by_phase[Phase.HOST_IO] = host * n_micro_batches
    elif hidden:
        by_phase[Phase.HOST_IO] = host * (hidden / host.total)
    by_phase[Phase.BUBBLE] = _like(by_phase, max(0.0, total - n_micro_batches * cycle))
    if workload.training and spec is not None:
        for phase, estimate in _update(workload, stages, spec, plan, system, calibration).items():
            by_phase[phase] = estimate
        by_phase[Phase.HOST_IO] = by_phase[Phase.HOST_IO] + Estimate(fitted=calibration.call_seconds.value / plan.device_iterations)
    matrix_flops = sum(c.flops for op in workload.ops for c in op.work.contractions)
    bits = 32 if any(c.bits == 32 for op in workload.ops for c in op.work.contractions) else 16
    step = StepTime(
        by_phase, cycle, n_cycles, ramp, matrix_flops * n_micro_batches * plan.replicas, ipu.peak_flops_per_second(bits=bits) * plan.n_ipus
    )
    items = plan.micro_batch * n_micro_batches * plan.replicas
    return TimeReport(timed, step, items / step.total.total, cycles)


def _total(phases: Mapping[Phase, Estimate]) -> float:
    return sum(estimate.total for estimate in phases.values())


def _like(phases: Mapping[Phase, Estimate], seconds: float) -> Estimate:
    """``seconds`` that rest on what ``phases`` rest on."""
    whole = Estimate.sum(phases.values())
    return whole * (seconds / whole.total) if whole.total else Estimate(formula=seconds)


def _stage_time(workload: Workload, stage: StageOps, cycles: StageCycles, plan: Plan, system: System) -> StageTime:
    per_cycle = 1.0 / system.ipu.clock_hz
    n = plan.n_ipus_per_replica
    received = sum(workload.buffers[b].bytes for b in stage.received)
    returned = sum(workload.buffers[b].bytes for b in stage.received_backward)
    alone = n == 1
    forward = {phase: estimate * per_cycle for phase, estimate in cycles.forward.items()}
    forward[Phase.IPU_LINKS] = ZERO if alone else links.pipeline_seconds(system, received, n)
    backward: Dict[Phase, Estimate] = {}
    if workload.training:
        backward = {phase: estimate * per_cycle for phase, estimate in cycles.backward.items()}
        backward[Phase.IPU_LINKS] = ZERO if alone else links.pipeline_seconds(system, returned, n)
    return StageTime(stage.number, stage.stage.ipu, stage.stage.begin, forward, backward, cycles.recompute_cycles * per_cycle)


def host_bytes(workload: Workload) -> float:
    """What a replica gets from the host for a micro-batch, and in inference returns."""
    received = sum(b.bytes for b in workload.buffers if b.role is Role.INPUT)
    returned = 0.0 if workload.training else sum(workload.buffers[b].bytes for b in workload.outputs)
    return received + returned


def _host(workload: Workload, stages: Sequence[StageOps], plan: Plan, system: System, calibration: Calibration) -> Estimate:
    fed = sum(bool(stage.from_host) for stage in stages)
    return host_io.micro_batch_seconds(system, calibration, host_bytes(workload), n_ipus_used=plan.n_ipus_per_replica, n_stages_fed=fed)


def _update(
    workload: Workload, stages: Sequence[StageOps], spec: OptimizerSpec, plan: Plan, system: System, calibration: Calibration
) -> Dict[Phase, Estimate]:
    """The weight update on the IPU that takes longest for it."""
    per_ipu = {number: owned_parameters(workload, stages, number) for number in range(plan.n_ipus_per_replica)}
    options = [_update_of(spec, owned, plan, system, calibration, number) for number, owned in per_ipu.items()]
    return max(options, key=lambda phases: _total(phases))


def owned_parameters(workload: Workload, stages: Sequence[StageOps], ipu: int) -> Tuple[Parameter, ...]:
    """Weights with a gradient whose state lives on one IPU."""
    trained = {name for name, _ in workload.gradients}
    numbers = dict.fromkeys(n for stage in stages if stage.stage.ipu == ipu for n in stage.owned)
    return tuple(workload.parameters[n] for n in numbers if workload.parameters[n].name in trained)


def _update_of(
    spec: OptimizerSpec, owned: Tuple[Parameter, ...], plan: Plan, system: System, calibration: Calibration, number: int
) -> Dict[Phase, Estimate]:
    gradients = sum(gradient_bytes(spec, p) for p in owned)
    state = sum(state_bytes(spec, p) for p in owned)
    share = 1.0 / plan.replicas if plan.replicated_tensor_sharding else 1.0
    cost = op_cost(update_work(spec, owned), tiling_of(plan, number, system.ipu), calibration)
    arithmetic = (cost.compute + cost.exchange) * share + cost.sync
    reduce = links.all_reduce_seconds(
        system, gradients, n_replicas=plan.replicas, n_ipus_per_replica=plan.n_ipus_per_replica, n_tensors=len(owned)
    )
    streamed = Estimate(assumed=2 * state * share / system.streaming_bytes_per_second) if plan.optimizer_state_off_chip else ZERO
    return {Phase.UPDATE: arithmetic * (1.0 / system.ipu.clock_hz), Phase.ALL_REDUCE: reduce, Phase.STREAMING: streamed}


def modules_of(stages: Sequence[StageOps], cycles: Sequence[StageCycles], clock_hz: float) -> Tuple[ModuleTime, ...]:
    """Time by module, op family, direction and stage."""
    found: Dict[Tuple[str, str, str, int], List[float]] = {}
    seconds: Dict[Tuple[str, str, str, int], Estimate] = {}
    for stage, priced in zip(stages, cycles):
        for op in priced.ops:
            key = (op.module, op.family, op.direction, stage.number)
            entry = found.setdefault(key, [0.0, 0])
            entry[0] += op.flops
            entry[1] += 1
            seconds[key] = seconds.get(key, ZERO) + op.cost.compute + op.cost.exchange + op.cost.sync
    return tuple(ModuleTime(*key, seconds[key] * (1.0 / clock_hz), entry[0], int(entry[1])) for key, entry in found.items())


__all__ = [
    "BACKWARD", "FORWARD", "TimeReport", "host_bytes", "modules_of", "owned_parameters", "price_stages", "time_of",
]  # fmt: skip
