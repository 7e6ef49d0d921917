"""One bar cut into shares: time by phase, and what an estimate rests on."""

from typing import List, NamedTuple, Sequence

from softipu.report.cost_report import CostReport, Phase
from softipu.report.estimate import Estimate, Provenance
from softipu.report.html.drawing import WIDTH, Drawing
from softipu.report.units import percent, time_unit


class Share(NamedTuple):
    """A part of a bar: its value, its class, its name and what to show on hover."""

    value: float
    css: str
    name: str
    tip: str


def share_bar(shares: Sequence[Share], label: str, height: float = 34.0) -> str:
    """The shares side by side; those wide enough carry their name."""
    total = sum(s.value for s in shares)
    picture = Drawing(WIDTH, height, label)
    x = 0.0
    for share in shares:
        width = share.value / total * WIDTH if total else 0.0
        picture.rect(x, 0, max(0.0, width - 1), height, share.css, share.tip, data=f'data-series="{share.css}"')
        text = f"{share.name} {percent(share.value / total)}" if total else ""
        if width > 6.8 * len(text) + 10:
            picture.text(x + width / 2, height / 2 + 4.5, text, "on-bar", anchor="middle")
        x += width
    return picture.markup()


def phase_css(phase: Phase) -> str:
    """Class of a phase in the style sheet."""
    return "p-" + phase.name.lower().replace("_", "-")


def phase_shares(cost: CostReport) -> List[Share]:
    """Time of a step by phase."""
    total = cost.time.total.total
    unit = time_unit([total])
    found = []
    for phase in Phase:
        seconds = cost.time.by_phase[phase].total if phase in cost.time.by_phase else 0.0
        if seconds:
            tip = f"{phase.value}\n{unit.full(seconds)}, {percent(seconds / total)}"
            found.append(Share(seconds, phase_css(phase), phase.value, tip))
    return found


def provenance_shares(estimate: Estimate) -> List[Share]:
    """What an estimate rests on."""
    names = {Provenance.DATASHEET: "datasheet", Provenance.FORMULA: "formula", Provenance.FITTED: "fitted", Provenance.ASSUMED: "assumed"}
    shares = estimate.shares()
    return [
        Share(shares[p.value], f"v-{p.value}", names[p], f"{names[p]}\n{percent(shares[p.value])}") for p in Provenance if shares[p.value]
    ]
