"""Puts the pictures and figures of a report on the page."""

import functools
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

from softipu.report.cost_report import CostReport, MemoryCategory
from softipu.report.estimate import Estimate
from softipu.report.html.front import front
from softipu.report.html.icicle import by_family, by_module, colour_of, family_ranks, icicle, tree
from softipu.report.html.liveness import liveness
from softipu.report.html.memory_bars import css_name, memory_bars
from softipu.report.html.pipeline import pipeline
from softipu.report.html.shares import phase_css, phase_shares, provenance_shares, share_bar
from softipu.report.html.tiles import tile_histogram
from softipu.report.plan_report import PlanReport
from softipu.report.text import does_not_fit_text
from softipu.report.timeline import Timeline
from softipu.report.units import KIBIBYTES, MEBIBYTES, bytes_words, counted, percent, three_digits, time_unit
from softipu.report.words import layout_words

_FOLDER = Path(__file__).parent


class Key(NamedTuple):
    """An entry of a legend."""

    css: str
    name: str
    figure: str


@functools.lru_cache(maxsize=None)
def _template() -> Any:
    # Here rather than at the top: only a page needs it, and `lightning-ipu --help` imports this package's neighbours.
    import jinja2

    loader = jinja2.FileSystemLoader(str(_FOLDER))
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    return environment.get_template("page.html")


def plan_page(report: PlanReport) -> str:
    """The page of a report, as text."""
    cost = report.cost
    page = _template().render(
        report=report,
        cost=cost,
        counted=counted,
        css=(_FOLDER / "page.css").read_text(encoding="utf-8"),
        script=(_FOLDER / "page.js").read_text(encoding="utf-8"),
        layout=layout_words(cost.plan),
        figures=_figures(cost),
        overflow="" if report.fits else does_not_fit_text(report),
        memory_bars=memory_bars(cost),
        memory_keys=_memory_keys(cost),
        ipus=[
            {"memory": m, "liveness": liveness(m) if m.liveness else "", "tiles": tile_histogram(m), "tile": _tile_words(m)}
            for m in cost.memory
        ],
        shown_ipu=cost.worst_ipu.ipu,
        pipeline=pipeline(cost),
        timeline=Timeline(cost),
        phase_bar=share_bar(phase_shares(cost), "Time of a step by phase"),
        phase_rows=_phase_rows(cost),
        modules=icicle(cost, tree(cost.modules, by_module, family_at=-2), "Time by module") if cost.modules else "",
        families=icicle(cost, tree(cost.modules, by_family, family_at=0), "Time by op family") if cost.modules else "",
        family_keys=_family_keys(cost),
        memory_rests=share_bar(provenance_shares(Estimate.sum(m.total for m in cost.memory)), "What the memory estimate rests on", 24.0),
        time_rests=share_bar(provenance_shares(cost.time.total), "What the time estimate rests on", 24.0),
        stages=_stage_rows(cost),
        front=front(report.search) if report.search is not None and report.search.front else "",
        front_rows=_front_rows(report),
        remedies=[
            {"text": r.text, "freed": bytes_words(r.freed_bytes), "rate": three_digits(r.items_per_second), "fits": r.fits}
            for r in report.remedies
        ],
    )
    return str(page)


def _figures(cost: CostReport) -> List[Dict[str, str]]:
    worst, step = cost.worst_ipu, cost.time.total.total
    bubble = sum(e.total for p, e in cost.time.by_phase.items() if p.value == "pipeline bubble")
    return [
        {
            "name": "samples per second",
            "value": three_digits(cost.items_per_second),
            "note": f"{cost.plan.items_per_update:,} per weight update",
        },
        {
            "name": "time of a weight update" if cost.training else "time of an iteration",
            "value": time_unit([step]).full(step),
            "note": f"{percent(bubble / step if step else 0.0)} pipeline bubble",
        },
        {
            "name": "fullest tile",
            "value": percent(worst.worst_tile_bytes / worst.tile_available_bytes),
            "note": f"{KIBIBYTES.full(worst.worst_tile_bytes)} of {KIBIBYTES.full(worst.tile_available_bytes)}, on IPU {worst.ipu}",
        },
        {"name": "of peak arithmetic", "value": percent(cost.time.utilisation_fraction), "note": f"{cost.plan.n_ipus} x {cost.ipu}"},
    ]


def _tile_words(memory: Any) -> str:
    mean = memory.total.total / memory.n_tiles
    return f"{memory.n_tiles:,} tiles, {KIBIBYTES.full(mean)} on average, {KIBIBYTES.full(memory.worst_tile_bytes)} on the fullest"


def _memory_keys(cost: CostReport) -> List[Key]:
    sums = {c: sum(m.by_category[c].total for m in cost.memory if c in m.by_category) for c in MemoryCategory}
    return [Key(css_name(c), c.value, bytes_words(value)) for c, value in sums.items() if value]


def _family_keys(cost: CostReport) -> List[Key]:
    ranks = family_ranks(cost.modules)
    seconds = dict.fromkeys(ranks, 0.0)
    for row in cost.modules:
        seconds[row.family] += row.seconds.total
    whole = sum(seconds.values()) or 1.0
    return [Key(colour_of(rank), name, percent(seconds[name] / whole)) for name, rank in ranks.items() if seconds[name] >= 0.0005 * whole]


def _phase_rows(cost: CostReport) -> List[Dict[str, str]]:
    total = cost.time.total.total
    unit = time_unit([total])
    rows = []
    for phase, estimate in cost.time.by_phase.items():
        if estimate.total:
            share = percent(estimate.total / total)
            rests = ", ".join(f"{percent(s)} {name}" for name, s in estimate.shares().items() if s >= 0.0005)
            rows.append({"css": phase_css(phase), "name": phase.value, "time": unit.full(estimate.total), "share": share, "rests": rests})
    return rows


def _stage_rows(cost: CostReport) -> List[Dict[str, str]]:
    unit = time_unit(s.seconds for s in cost.stages)
    rows = []
    for s, planned in zip(cost.stages, cost.plan.stages):
        forward, backward = Estimate.sum(s.forward.values()).total, Estimate.sum(s.backward.values()).total
        rows.append(
            {
                "stage": str(s.stage),
                "ipu": str(s.ipu),
                "begin": s.begin or "(the start)",
                "recompute": unit.full(s.recompute_seconds) if planned.recompute else "no",
                "forward": unit.full(forward),
                "backward": unit.full(backward) if cost.training else "",
                "total": unit.full(s.seconds),
                "width": f"{100 * s.seconds / (max(x.seconds for x in cost.stages) or 1.0):.1f}",
            }
        )
    return rows


def _front_rows(report: PlanReport) -> List[Dict[str, str]]:
    if report.search is None:
        return []
    return [
        {
            "rate": three_digits(c.items_per_second),
            "ipus": str(c.n_ipus),
            "memory": MEBIBYTES.full(c.memory_bytes),
            "tile": percent(c.tile_fraction),
            "layout": layout_words(c.plan),
        }
        for c in report.search.front
    ]
