"""Reports for a terminal. Nothing here computes a cost."""

from typing import Callable, Dict, List, Mapping, Sequence

from softipu.report.cost_report import CostReport, MemoryCategory, Phase, StageTime
from softipu.report.estimate import Estimate, Provenance
from softipu.report.plan_report import Candidate, PlanReport, SearchResult
from softipu.report.table import table
from softipu.report.units import KIBIBYTES, MEBIBYTES, MIB, counted, percent, three_digits, time_unit
from softipu.report.words import layout_words

_SHORT = {
    MemoryCategory.WEIGHTS: "weights",
    MemoryCategory.OPTIMIZER_STATE: "optimizer",
    MemoryCategory.ACCUMULATORS: "accum.",
    MemoryCategory.STASHED: "stashed",
    MemoryCategory.LIVE: "live",
    MemoryCategory.TEMPORARY: "temporary",
    MemoryCategory.EXCHANGE: "exchange",
    MemoryCategory.HOST_IO: "host I/O",
    MemoryCategory.CODE: "code",
    MemoryCategory.STACK: "stack",
}
MOST_SHOWN_MODULES = 12


def plan_text(report: PlanReport) -> str:
    """A plan report: verdict, memory, time, what to do, and the search if there was one."""
    cost = report.cost
    direction = "training" if cost.training else "inference"
    verdict = "fits" if report.fits else "DOES NOT FIT"
    lines = [
        f"{report.model}, {direction} on {cost.system} ({cost.plan.n_ipus} x {cost.ipu}): {verdict}",
        f"  {layout_words(cost.plan)}",
        "",
    ]
    if report.unsupported:
        lines += [f"PopTorch does not list as supported: {', '.join(report.unsupported)}", ""]
    if not report.fits:
        lines += [does_not_fit_text(report), ""]
    lines += memory_lines(cost) + [""] + stage_lines(cost) + [""] + time_lines(cost) + [""] + family_lines(cost) + [""] + share_lines(cost)
    if report.search is not None:
        lines += [""] + search_lines(report.search)
    if cost.assumptions:
        lines += ["", "Assumed, because nothing published says:"] + [f"  - {sentence}" for sentence in cost.assumptions]
    return "\n".join(lines) + "\n"


def memory_lines(cost: CostReport) -> List[str]:
    """Memory of each IPU of a replica by category, and its fullest tile."""
    columns = [c for c in MemoryCategory if any(m.by_category.get(c, Estimate()).total for m in cost.memory)]
    rows = []
    for m in cost.memory:
        cells = [_mib(m.by_category[c].total) if c in m.by_category else "0" for c in columns]
        tile = f"{KIBIBYTES.show(m.worst_tile_bytes)}{'' if m.fits else ' !'}"
        rows.append([str(m.ipu), *cells, _mib(m.total.total), tile, m.what])
    sums = [_mib(sum(m.by_category[c].total for m in cost.memory if c in m.by_category)) for c in columns]
    header = ["IPU", *(_SHORT[c] for c in columns), "total", "tile KiB", "holds"]
    total = ["all", *sums, _mib(sum(m.total.total for m in cost.memory)), "", ""] if len(cost.memory) > 1 else []
    first = cost.memory[0]
    room, tile = _mib(first.available_bytes), KIBIBYTES.show(first.tile_available_bytes)
    title = f"Memory of each IPU, MiB of {room}; of its fullest tile, KiB of {tile}"
    return [title] + table(header, rows, total, left=(0, len(header) - 1))


def stage_lines(cost: CostReport) -> List[str]:
    """Time of each stage for one micro-batch."""
    unit = time_unit(stage.seconds for stage in cost.stages)
    columns = [p for p in Phase if any(p in s.forward or p in s.backward for s in cost.stages)]
    rows = []
    for s in cost.stages:
        cells = [unit.show(_of(s, p)) for p in columns]
        rows.append([str(s.stage), str(s.ipu), *cells, unit.show(s.recompute_seconds), unit.show(s.seconds), s.begin or "(start)"])
    header = ["stage", "IPU", *(p.value for p in columns), "recompute", "total", "begins at"]
    total = ["all", "", *(unit.show(sum(_of(s, p) for s in cost.stages)) for p in columns)]
    total += [unit.show(sum(s.recompute_seconds for s in cost.stages)), unit.show(sum(s.seconds for s in cost.stages)), ""]
    title = f"Time of each stage for one micro-batch of {cost.plan.micro_batch}, {unit.name} (recompute is part of the phases)"
    return [title] + table(header, rows, total if len(rows) > 1 else [], left=(0, 1, len(header) - 1))


def time_lines(cost: CostReport) -> List[str]:
    """Time of a step by phase, rate and utilisation."""
    time = cost.time
    unit = time_unit([time.total.total])
    rows = [[p.value, unit.show(e.total), percent(e.total / time.total.total)] for p, e in _ordered(time.by_phase).items() if e.total]
    what = f"one weight update ({cost.plan.items_per_update:,} samples)" if cost.training else "one device iteration"
    total = ["total", unit.show(time.total.total), percent(1.0)]
    lines = [f"Time of {what}, {unit.name}", *table(["phase", unit.name, "share"], rows, total)]
    lines.append(
        f"{three_digits(cost.items_per_second)} samples/s at {percent(time.utilisation_fraction)} of peak arithmetic; "
        f"{counted(time.n_cycles, 'pipeline cycle')} of {time_unit([time.cycle_seconds]).full(time.cycle_seconds)}"
    )
    host = time.by_phase.get(Phase.HOST_IO, Estimate()).total
    if cost.training and host > 0.5 * time.total.total:
        lines.append(
            "Most of the time goes to the host. Larger micro-batches and more weight updates in a call, as with "
            "IPUStrategy(device_iterations=16), take less of it."
        )
    return lines


def family_lines(cost: CostReport) -> List[str]:
    """Time of one micro-batch by op family, over all stages."""
    seconds: Dict[str, float] = {}
    for m in cost.modules:
        seconds[m.family] = seconds.get(m.family, 0.0) + m.seconds.total
    whole = sum(seconds.values())
    unit = time_unit(seconds.values())
    ranked = sorted(seconds.items(), key=lambda item: -item[1])
    rows = [[name, unit.show(value), percent(value / whole if whole else 0.0)] for name, value in ranked[:MOST_SHOWN_MODULES]]
    rest = sum(value for _, value in ranked[MOST_SHOWN_MODULES:])
    if rest:
        rows.append([f"{len(ranked) - MOST_SHOWN_MODULES} others", unit.show(rest), percent(rest / whole)])
    return [f"Time of one micro-batch by op family, {unit.name}"] + table(
        ["family", unit.name, "share"], rows, ["total", unit.show(whole), percent(1.0)]
    )


def share_lines(cost: CostReport) -> List[str]:
    """What the estimates rest on."""
    memory = Estimate.sum(m.total for m in cost.memory).shares()
    time = cost.time.total.shares()
    rows = [[p.value, percent(memory[p.value]), percent(time[p.value])] for p in Provenance]
    return ["What the estimate rests on"] + table(["", "memory", "time"], rows)


def does_not_fit_text(report: PlanReport) -> str:
    """Which IPU overflows, by what, and what to do: the message of DoesNotFitError."""
    worst = report.cost.worst_ipu
    held, available = _mib(worst.total.total), _mib(worst.available_bytes)
    if worst.total.total > worst.available_bytes:
        lines = [f"IPU {worst.ipu} needs {held} MiB; a {report.cost.ipu} has {available} MiB ({worst.what})."]
    else:
        tile, limit = KIBIBYTES.show(worst.worst_tile_bytes), KIBIBYTES.show(worst.tile_available_bytes)
        lines = [
            f"IPU {worst.ipu} needs {tile} KiB on its fullest tile; a tile of a {report.cost.ipu} has {limit} KiB ({worst.what}).",
            f"All its tiles together hold {held} MiB of {available} MiB; memory is spread unevenly over tiles.",
        ]
    largest = sorted(worst.by_category.items(), key=lambda item: -item[1].total)
    shown = [(c, e) for c, e in largest if e.total >= 0.02 * worst.total.total]
    width = max(len(c.value) for c, _ in shown)
    figures = [_mib(e.total) for _, e in shown]
    digits = max(map(len, figures))
    lines += [f"  {c.value:<{width}}  {figure:>{digits}} MiB" for (c, _), figure in zip(shown, figures)]
    others = [m.ipu for m in report.cost.memory if not m.fits and m is not worst]
    if others:
        lines.append(
            f"IPU{'s' if len(others) > 1 else ''} {', '.join(map(str, others))} {'do' if len(others) > 1 else 'does'} not fit either."
        )
    if report.remedies:
        lines.append(f"Try, cheapest first: {'; '.join(r.text for r in report.remedies)}.")
    else:
        lines.append("No single change of the plan makes it fit: search for another with `lightning-ipu plan --search`, or use more IPUs.")
    return "\n".join(lines)


def search_lines(search: SearchResult) -> List[str]:
    """The front, and why the others fell."""
    title = (
        f"Searched {search.n_choices:,} choices in {time_unit([search.seconds]).full(search.seconds)}: "
        f"{search.n_bounded:,} left out by bounds, {search.n_priced:,} plans priced in full"
    )
    lines = [title]
    if search.front:
        header = ["samples/s", "IPUs", "fullest IPU MiB", "tile", "layout"]
        lines += ["Best for throughput, memory and number of IPUs:"] + table(header, [_row(c) for c in search.front], left=(4,))
    else:
        lines.append("No plan fits.")
    if search.fallen:
        lines += ["Why others fell:"] + table(["choice", "reason"], [[f.what, f.why] for f in search.fallen], left=(0, 1))
    return lines


def _row(candidate: Candidate) -> Sequence[str]:
    return [
        three_digits(candidate.items_per_second),
        str(candidate.n_ipus),
        MEBIBYTES.show(candidate.memory_bytes),
        percent(candidate.tile_fraction),
        layout_words(candidate.plan),
    ]


def _mib(value: float) -> str:
    """Whole mebibytes from 10 on, so that a column adds up; "0" only for nothing."""
    size = value / MIB
    return "0" if not value else f"{size:,.0f}" if size >= 9.95 else f"{size:.1f}" if size >= 0.05 else "<0.1"


def _of(stage: StageTime, phase: Phase) -> float:
    return sum(side[phase].total for side in (stage.forward, stage.backward) if phase in side)


def _ordered(by_phase: Mapping[Phase, Estimate]) -> Dict[Phase, Estimate]:
    order: Callable[[Phase], int] = list(Phase).index
    return {phase: by_phase[phase] for phase in sorted(by_phase, key=order)}
