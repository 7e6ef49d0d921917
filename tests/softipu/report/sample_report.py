"""A report made by hand: a transformer over four IPUs. The figures are invented, but add up as real ones do."""

from typing import Tuple

from softipu.cost.pipeline import StageSeconds, pipeline_time
from softipu.report.cost_report import CostReport, IpuMemory, LivePoint, MemoryCategory, ModuleTime, Phase, StageTime, StepTime, TileBand
from softipu.report.estimate import Estimate, Provenance
from softipu.report.plan import Plan, Stage
from softipu.report.plan_report import Candidate, Fallen, PlanReport, Remedy, SearchResult

MIB = 1024.0 * 1024.0
N_TILES, TILE = 1472, 624 * 1024
FIRST_LAYERS = (0, 3, 10, 17)
N_LAYERS = 24

PLAN = Plan(
    stages=(
        Stage("", 0, recompute=True),
        Stage("encoder.layer.3", 1, recompute=True),
        Stage("encoder.layer.10", 2, recompute=True),
        Stage("encoder.layer.17", 3, recompute=True),
    ),
    micro_batch=4,
    gradient_accumulation=64,
    replicas=4,
)


def _of(value: float, kind: Provenance = Provenance.FORMULA) -> Estimate:
    return Estimate.of(value, kind)


def memory(ipu: int, *, scale: float = 1.0, what: str = "") -> IpuMemory:
    stash = (3 - ipu) * 44 * MIB * scale
    by_category = {
        MemoryCategory.WEIGHTS: _of((150 + 10 * ipu) * MIB),
        MemoryCategory.OPTIMIZER_STATE: _of(120 * MIB),
        MemoryCategory.ACCUMULATORS: _of(150 * MIB),
        MemoryCategory.STASHED: _of(stash),
        MemoryCategory.LIVE: _of(70 * MIB * scale),
        MemoryCategory.TEMPORARY: _of(44 * MIB, Provenance.FITTED),
        MemoryCategory.EXCHANGE: _of(12 * MIB, Provenance.FITTED),
        MemoryCategory.HOST_IO: _of(4 * MIB if ipu == 0 else 0.0),
        MemoryCategory.CODE: _of(92 * MIB, Provenance.FITTED),
        MemoryCategory.STACK: _of(9 * MIB, Provenance.ASSUMED),
    }
    total = Estimate.sum(by_category.values()).total
    mean = total / N_TILES
    bands = tuple(
        TileBand(mean * (0.82 + 0.04 * i), mean * (0.86 + 0.04 * i), n) for i, n in enumerate((6, 40, 180, 420, 446, 250, 100, 24, 6))
    )
    live = tuple(
        LivePoint(
            op=("aten.mm", "aten.bmm", "aten._softmax", "aten.gelu", "aten.native_layer_norm")[i % 5],
            module=f"encoder.layer.{FIRST_LAYERS[ipu] + i // 32}.attention",
            phase=("forward", "recompute", "backward")[min(2, i // 80)],
            live_bytes=scale * MIB * (20 + 50 * (i / 110 if i < 110 else max(0, (240 - i) / 130))),
            temporary_bytes=MIB * (44 if i % 5 == 1 else 12),
        )
        for i in range(240)
    )
    worst = mean * 1.12
    return IpuMemory(ipu, what or f"stage {ipu}", by_category, N_TILES * TILE, N_TILES, TILE, worst, bands, live)


def stage_time(stage: int) -> StageTime:
    n = (N_LAYERS - FIRST_LAYERS[3]) if stage == 3 else FIRST_LAYERS[stage + 1] - FIRST_LAYERS[stage]
    ms = 1e-3 * (0.31 * n + (0.4 if stage in (0, 3) else 0.0))
    forward = {
        Phase.COMPUTE: _of(0.7 * ms),
        Phase.EXCHANGE: _of(0.22 * ms, Provenance.FITTED),
        Phase.SYNC: _of(0.05 * ms, Provenance.ASSUMED),
    }
    forward[Phase.IPU_LINKS] = _of(0.03 * ms, Provenance.DATASHEET)
    backward = {phase: estimate * 3.0 for phase, estimate in forward.items()}
    return StageTime(stage, stage, PLAN.stages[stage].begin, forward, backward, recompute_seconds=ms)


def module_times() -> Tuple[ModuleTime, ...]:
    rows = [ModuleTime("embeddings.word", "embedding", "forward", 0, _of(0.2e-3), 1e6, 2)]
    for layer in range(N_LAYERS):
        stage = max(i for i, first in enumerate(FIRST_LAYERS) if layer >= first)
        for part, ms in (("attention.self", 0.1), ("attention.output", 0.04), ("intermediate", 0.08), ("output", 0.09)):
            path = f"encoder.layer.{layer}.{part}"
            for direction, factor in (("forward", 1.0), ("recompute", 1.0), ("backward", 2.0)):
                rows.append(ModuleTime(path, "matmul", direction, stage, _of(0.7e-3 * ms * factor), 5e9 * factor, 4))
                rows.append(ModuleTime(path, "elementwise", direction, stage, _of(0.2e-3 * ms * factor), 1e7, 6))
                if part == "attention.self":
                    rows.append(ModuleTime(path, "softmax", direction, stage, _of(0.3e-3 * ms * factor), 1e7, 2))
    rows.append(ModuleTime("", "losses", "forward", 3, _of(0.1e-3), 1e6, 3))
    return tuple(rows)


def cost(*, scale: float = 1.0, ipu: str = "Bow", system: str = "bow-pod16") -> CostReport:
    """The report; ``scale`` multiplies the activations, so that 9 does not fit."""
    stages = tuple(stage_time(s) for s in range(4))
    seconds = [StageSeconds(s.ipu, *(Estimate.sum(side.values()).total for side in (s.forward, s.backward))) for s in stages]
    pipeline = pipeline_time(seconds, PLAN.gradient_accumulation, training=True)
    slowest = max(stages, key=lambda s: s.seconds)
    by_phase = {}
    for phase in (Phase.COMPUTE, Phase.EXCHANGE, Phase.SYNC, Phase.IPU_LINKS):
        by_phase[phase] = (slowest.forward[phase] + slowest.backward[phase]) * PLAN.gradient_accumulation
    by_phase[Phase.BUBBLE] = _of(pipeline.bubble_seconds(PLAN.gradient_accumulation))
    by_phase[Phase.ALL_REDUCE] = _of(6.1e-3, Provenance.DATASHEET)
    by_phase[Phase.UPDATE] = _of(2.4e-3)
    time = StepTime(
        by_phase, pipeline.steady_seconds, pipeline.n_cycles, pipeline.ramp_seconds, flops=4.1e14, peak_flops_per_second=16 * 350e12
    )
    words = ("stage 0: embeddings, encoder layers 0 to 2", "stage 1: encoder layers 3 to 9", "stage 2: encoder layers 10 to 16")
    memories = tuple(memory(i, scale=scale, what=(*words, "stage 3: encoder layers 17 to 23, pooler, head")[i]) for i in range(4))
    rate = PLAN.items_per_update / Estimate.sum(by_phase.values()).total
    assumptions = ("Poplar's sync delays are not published; 90 cycles are taken.",)
    return CostReport(system, ipu, True, PLAN, memories, stages, module_times(), time, rate, assumptions)


def fitting() -> PlanReport:
    report = cost()
    candidates = tuple(
        Candidate(PLAN, report.items_per_second * f, report.worst_ipu.total.total * m, 0.95 * m, n)
        for f, m, n in ((1.0, 1.0, 16), (0.93, 0.8, 16), (0.51, 0.99, 8), (0.47, 0.76, 8), (0.26, 0.97, 4))
    )
    fallen = (
        Fallen("1 IPU a replica", "needs at least 2,310 MiB of weights and optimizer state on one IPU of 897 MiB"),
        Fallen("4 IPUs a replica, micro-batch 8", "the best split needs 1,012 MiB on IPU 0 (stashed activations 611 MiB)", 3120.0),
    )
    return PlanReport("BertForPreTraining", report, search=SearchResult(candidates, fallen, 96, 61, 9, 7.4))


def overflowing() -> PlanReport:
    report = cost(scale=9.0)
    remedies = (
        Remedy("recompute stage 0", PLAN, 400 * MIB, report.items_per_second * 0.97, False),
        Remedy("micro-batch 4 -> 2", PLAN, 300 * MIB, report.items_per_second * 0.8, True),
    )
    return PlanReport("BertForPreTraining", report, remedies, unsupported=("aten::unique",))
