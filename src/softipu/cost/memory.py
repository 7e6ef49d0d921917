"""Memory of every IPU of a replica, by category, at the moment of the highest use."""

from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from softipu.capture.update import OptimizerSpec
from softipu.cost.liveness import Liveness, live_memory
from softipu.cost.pipeline import stash_depth
from softipu.cost.program_size import code_bytes_per_tile, different_updates
from softipu.cost.stage_time import StageCycles
from softipu.cost.stages import StageOps
from softipu.cost.step_time import owned_parameters
from softipu.cost.tiles import bands, spread
from softipu.cost.update_work import accumulator_bytes, gradient_bytes, state_bytes
from softipu.cost.workload import Parameter, Workload
from softipu.graph import Role
from softipu.hardware import System
from softipu.hardware.calibration import ASSUMED
from softipu.report.cost_report import IpuMemory, LivePoint, MemoryCategory
from softipu.report.estimate import Estimate
from softipu.report.plan import Plan, Schedule

MAX_POINTS = 256
_Category = MemoryCategory


@dataclass(frozen=True)
class _Peak:
    """The highest moment: bytes of buffers that exist, and of temporary memory."""

    live: Tuple[float, ...]
    temporary: float

    @property
    def bytes(self) -> float:
        return sum(self.live) + self.temporary


@dataclass(frozen=True)
class StageMemory:
    """Memory of one micro-batch of a stage over time.

    Attributes:
        depth: micro-batches whose activations wait in a stash.
        liveness: what is live op by op.
        temporary: temporary memory of ops, by number.
        points: the same for a report.
    """

    depth: int
    liveness: Liveness
    temporary: Mapping[int, float]
    points: Tuple[LivePoint, ...]


def memory_of_stages(workload: Workload, stages: Sequence[StageOps], cycles: Sequence[StageCycles], plan: Plan) -> Tuple[StageMemory, ...]:
    """What is live in every stage; ``cycles`` are the stages' priced ops."""
    found = []
    for stage, priced in zip(stages, cycles):
        depth = stash_depth(stage.number, len(plan.stages)) if workload.training and plan.schedule is Schedule.PIPELINED else 1
        liveness, temporary = _liveness(workload, stage, priced, plan, stashed=depth > 1)
        found.append(StageMemory(depth, liveness, temporary, tuple(_named(workload, liveness, temporary))))
    return tuple(found)


def memory_of(
    workload: Workload, stages: Sequence[StageOps], live: Sequence[StageMemory], spec: Optional[OptimizerSpec], plan: Plan, system: System
) -> Tuple[IpuMemory, ...]:
    """Memory of IPU 0, 1, ... of a replica; ``live`` is from ``memory_of_stages``, ``spec`` is None for inference."""
    return tuple(_price_ipu(workload, stages, live, spec, plan, system, number) for number in range(plan.n_ipus_per_replica))


def _price_ipu(
    workload: Workload,
    stages: Sequence[StageOps],
    live: Sequence[StageMemory],
    spec: Optional[OptimizerSpec],
    plan: Plan,
    system: System,
    number: int,
) -> IpuMemory:
    ipu = system.ipu
    mine = [(s, m) for s, m in zip(stages, live) if s.stage.ipu == number]
    always: Dict[MemoryCategory, List[float]] = {category: [] for category in _Category}
    always[_Category.WEIGHTS] = _weights(workload, [s for s, _ in mine])
    peak = _Peak((), 0.0)
    points: List[LivePoint] = []
    for stage, own in mine:
        found = own.liveness
        always[_Category.STASHED].extend(b * own.depth for b in found.stash)
        always[_Category.EXCHANGE].extend(workload.buffers[b].bytes for b in (*stage.received, *stage.received_backward))
        always[_Category.HOST_IO].extend(workload.buffers[b].bytes * ASSUMED.host_buffers for b in stage.from_host)
        points.extend(own.points)
        if found.peak >= 0:
            highest = _Peak(found.at_peak, own.temporary.get(found.points[found.peak].number, 0.0))
            peak = max(peak, highest, key=lambda p: p.bytes)
    n_updates = 0
    if workload.training and spec is not None:
        owned = owned_parameters(workload, stages, number)
        share = 1.0 / plan.replicas if plan.replicated_tensor_sharding else 1.0
        states = [state_bytes(spec, p) * share for p in owned]
        if not plan.optimizer_state_off_chip:
            always[_Category.OPTIMIZER_STATE] = [b for b in states if b]
        if plan.gradient_accumulation > 1:
            always[_Category.ACCUMULATORS] = [b for b in (accumulator_bytes(spec, p) for p in owned) if b]
        n_updates = different_updates(owned)
        parts = max([n for _, n in plan.serialized], default=1)
        peak = max(peak, _update_peak(spec, owned, states, plan, parts), key=lambda p: p.bytes)
    code = code_bytes_per_tile(workload, [s for s, _ in mine], n_updates=n_updates)
    tiles = spread([b for sizes in always.values() for b in sizes if b] + list(peak.live), ipu.n_tiles)
    fixed = code + ipu.stack_bytes_per_tile + peak.temporary / ipu.n_tiles + ASSUMED.gap_fraction * ipu.sram_bytes_per_tile
    tiles = [tile + fixed for tile in tiles]
    by_category = {category: Estimate(formula=sum(sizes)) for category, sizes in always.items()}
    by_category[_Category.LIVE] = Estimate(formula=sum(peak.live))
    by_category[_Category.TEMPORARY] = Estimate(formula=peak.temporary)
    by_category[_Category.CODE] = Estimate(assumed=(code + ASSUMED.gap_fraction * ipu.sram_bytes_per_tile) * ipu.n_tiles)
    by_category[_Category.STACK] = Estimate(datasheet=float(ipu.stack_bytes_per_tile * ipu.n_tiles))
    return IpuMemory(
        ipu=number,
        what=_description(plan, number),
        by_category=by_category,
        available_bytes=ipu.sram_bytes,
        n_tiles=ipu.n_tiles,
        tile_available_bytes=ipu.sram_bytes_per_tile,
        worst_tile_bytes=max(tiles),
        tiles=bands(tiles),
        liveness=_thinned(points),
    )


def _weights(workload: Workload, stages: Sequence[StageOps]) -> List[float]:
    """Weights and the module's own state that the stages read."""
    numbers = dict.fromkeys(n for stage in stages for n in stage.parameters)
    found = [float(workload.parameters[n].elements * workload.parameters[n].element_bytes) for n in numbers]
    ops = {i for stage in stages for segment in stage.segments for i in (*segment.forward, *segment.backward)}
    state = dict.fromkeys(b for i in ops for b in workload.ops[i].reads if workload.buffers[b].role is Role.BUFFER)
    return found + [workload.buffers[b].bytes for b in state]


def _liveness(workload: Workload, stage: StageOps, priced: StageCycles, plan: Plan, *, stashed: bool) -> Tuple[Liveness, Dict[int, float]]:
    temporary = {op.number: op.cost.temporary_bytes for op in priced.ops if op.number >= 0 and op.cost.temporary_bytes}
    parts = {}
    for segment in stage.segments:
        for i in (*segment.forward, *segment.backward):
            for path, n in plan.serialized:
                if workload.ops[i].origin.inside(path):
                    parts[i] = n
    return live_memory(workload, stage, stashed=stashed, temporary=temporary, parts=parts), temporary


def _update_peak(spec: OptimizerSpec, owned: Sequence[Parameter], states: Sequence[float], plan: Plan, parts: int) -> _Peak:
    """While one tensor of weights is updated: its state, if it comes from outside, and the gradient that is added up."""
    worst = 0.0
    for parameter, state in zip(owned, states):
        needed = state if plan.optimizer_state_off_chip else 0.0
        needed += gradient_bytes(spec, parameter) if plan.replicas > 1 else 0.0
        worst = max(worst, needed / parts)
    return _Peak((worst,) if worst else (), 0.0)


def _named(workload: Workload, found: Liveness, temporary: Dict[int, float]) -> List[LivePoint]:
    return [
        LivePoint(
            workload.ops[p.number].name.replace("::", "."),
            workload.ops[p.number].origin.module,
            p.direction,
            p.live,
            temporary.get(p.number, 0.0),
        )
        for p in found.points
    ]


def _thinned(points: Sequence[LivePoint]) -> Tuple[LivePoint, ...]:
    """At most MAX_POINTS, of every run of neighbours the highest."""
    size = -(-len(points) // MAX_POINTS)
    if size <= 1:
        return tuple(points)
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return tuple(max(group, key=lambda p: p.live_bytes + p.temporary_bytes) for group in groups)


def _description(plan: Plan, number: int) -> str:
    """The stages of an IPU in words."""
    names = []
    for i, stage in enumerate(plan.stages):
        if stage.ipu == number:
            until = plan.stages[i + 1].begin if i + 1 < len(plan.stages) else ""
            names.append(f"stage {i}: from {stage.begin or 'the first op'}" + (f" up to {until}" if until else " to the end"))
    return "; ".join(names)
