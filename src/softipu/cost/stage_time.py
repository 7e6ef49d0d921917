"""Time of a stage for one micro-batch: its ops, what it computes again, and the gradients that it adds up."""

from dataclasses import dataclass, replace
from typing import Any, Dict, Iterable, List, Tuple

from softipu.cost.op_cost import OpCost, Tiling, op_cost
from softipu.cost.stages import StageOps
from softipu.cost.workload import Op, Workload
from softipu.hardware import Calibration, Ipu
from softipu.ops import Contraction, VectorOp, Work
from softipu.report.cost_report import Phase
from softipu.report.estimate import Estimate
from softipu.report.plan import Partials, Plan

FORWARD, BACKWARD, RECOMPUTE = "forward", "backward", "recompute"


@dataclass(frozen=True)
class PricedOp:
    """An op of a stage with its cost; an op that is computed again is there twice.

    Attributes:
        number: of the op in the workload; -1 for the addition of a gradient to its accumulator.
        module, family, direction: for reports.
        cost: on the stage's IPU.
        flops: of the op.
    """

    number: int
    module: str
    family: str
    direction: str
    cost: OpCost
    flops: float


@dataclass(frozen=True)
class StageCycles:
    """Cycles of a stage for one micro-batch, by phase, and the ops that they come from."""

    forward: Dict[Phase, Estimate]
    backward: Dict[Phase, Estimate]
    recompute_cycles: float
    ops: Tuple[PricedOp, ...]


def between(low: StageCycles, high: StageCycles, t: float) -> StageCycles:
    """Cycles on the line through two, ``low`` at 0 and ``high`` at 1; without the ops."""

    def mixed(a: Dict[Phase, Estimate], b: Dict[Phase, Estimate]) -> Dict[Phase, Estimate]:
        return {phase: a[phase] * (1 - t) + b[phase] * t for phase in a}

    again = low.recompute_cycles * (1 - t) + high.recompute_cycles * t
    return StageCycles(mixed(low.forward, high.forward), mixed(low.backward, high.backward), again, ())


def tiling_of(plan: Plan, number: int, ipu: Ipu) -> Tiling:
    """How the ops of IPU ``number`` of a plan are cut."""
    return Tiling(ipu, ipu.n_tiles - plan.n_io_tiles, plan.memory_proportion(number), plan.partials is Partials.HALF)


def price_stage(workload: Workload, stage: StageOps, plan: Plan, tiling: Tiling, calibration: Calibration) -> StageCycles:
    """The cycles of ``stage``."""
    parts = dict(plan.serialized)
    ops: List[PricedOp] = []
    priced: Dict[Tuple[int, int], OpCost] = {}  # by the identity of the work: hashing it for each op would take longer than all else

    def cost_of(op: Op) -> OpCost:
        n = next((n for path, n in parts.items() if op.origin.inside(path)), 1) if parts and op.work.contractions else 1
        key = (id(op.work), n)
        if key not in priced:
            priced[key] = _cost(op.work, n, tiling, calibration)
        return priced[key]

    def add(numbers: Iterable[int], direction: str) -> None:
        for number in numbers:
            op = workload.ops[number]
            ops.append(PricedOp(number, op.origin.module, op.work.family, direction, cost_of(op), op.work.flops))

    for segment in stage.segments:
        add(segment.forward, FORWARD)
    for segment in reversed(stage.segments):
        add(segment.recomputed, RECOMPUTE)
        add(segment.redrawn, RECOMPUTE)
        add(segment.backward, BACKWARD)
    if workload.training and plan.gradient_accumulation > 1:
        with_gradient = {name for name, _ in workload.gradients}
        for number in stage.owned:
            parameter = workload.parameters[number]
            if parameter.name in with_gradient:
                work = Work(
                    "accumulation",
                    (),
                    ((VectorOp.ADD, float(parameter.elements)),),
                    16 if parameter.element_bytes == 2 else 32,
                    n_supersteps=1,
                )
                module = parameter.name.rpartition(".")[0]
                ops.append(PricedOp(-1, module, work.family, BACKWARD, op_cost(work, tiling, calibration), work.flops))
    forward = _sum(o for o in ops if o.direction == FORWARD)
    backward = _sum(o for o in ops if o.direction != FORWARD)
    again = sum(o.cost.cycles for o in ops if o.direction == RECOMPUTE)
    return StageCycles(forward, backward, again, tuple(ops))


def _sum(ops: Iterable[PricedOp]) -> Dict[Phase, Estimate]:
    times: Dict[int, List[Any]] = {}
    for op in ops:
        times.setdefault(id(op.cost), [op.cost, 0])[1] += 1
    return {
        Phase.COMPUTE: Estimate.sum(cost.compute * n for cost, n in times.values()),
        Phase.EXCHANGE: Estimate.sum(cost.exchange * n for cost, n in times.values()),
        Phase.SYNC: Estimate.sum(cost.sync * n for cost, n in times.values()),
    }


def _cost(work: Work, n: int, tiling: Tiling, calibration: Calibration) -> OpCost:
    if n == 1:
        return op_cost(work, tiling, calibration)
    one = op_cost(part_of(work, n), tiling, calibration)
    return OpCost(one.compute * n, one.exchange * n, one.sync * n, one.temporary_bytes)


def part_of(work: Work, n: int) -> Work:
    """One of ``n`` parts of a serialized product: its longest dimension is cut."""
    return replace(
        work,
        contractions=tuple(_cut(c, n) for c in work.contractions),
        vector=tuple((kind, elements / n) for kind, elements in work.vector),
    )


def _cut(c: Contraction, n: int) -> Contraction:
    longest = max(("rows", "inner", "columns"), key=lambda name: getattr(c, name))
    cut = replace(c, **{longest: -(-getattr(c, longest) // n)})
    return replace(cut, in_positions=-(-c.in_positions // n)) if longest == "rows" else cut
