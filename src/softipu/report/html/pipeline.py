"""The pipeline over one weight update: a row for each IPU, a column for each cycle."""

from typing import List, Tuple

from softipu.report.cost_report import CostReport, Phase
from softipu.report.html.drawing import WIDTH, Drawing
from softipu.report.timeline import Cycle, Timeline
from softipu.report.units import time_unit

_LEFT, _TOP, _ROW, _BREAK = 64.0, 34.0, 26.0, 84.0
_AFTER = (Phase.ALL_REDUCE, Phase.UPDATE, Phase.STREAMING, Phase.HOST_IO)
_MOST_CYCLES = 96


def pipeline(cost: CostReport) -> str:
    """Ramp up, the begin and end of the steady part with a break between them, ramp down, and what follows the last cycle."""
    timeline = Timeline(cost)
    cycles, n_left_out = timeline.shown(min(_MOST_CYCLES, max(12, 2 * timeline.depth + 6)))
    floor = _TOP + _ROW * cost.plan.n_ipus_per_replica
    after = [(p, cost.time.by_phase[p].total) for p in _AFTER if p in cost.time.by_phase and cost.time.by_phase[p].total]
    tail = 120.0 if after else 0.0
    width = (WIDTH - _LEFT - tail - (_BREAK if n_left_out else 0.0)) / len(cycles)
    picture = Drawing(WIDTH, floor + 30, "Which micro-batch each IPU works on during one weight update")
    for ipu in range(cost.plan.n_ipus_per_replica):
        picture.text(_LEFT - 10, _TOP + ipu * _ROW + _ROW * 0.66, f"IPU {ipu}", "label", anchor="end")
    places, x = [], _LEFT
    for before, cycle in zip([None, *cycles], cycles):
        if before is not None and cycle.index != before.index + 1:
            _break(picture, x, floor, n_left_out)
            x += _BREAK
        _cycle(picture, cost, cycle, x, width)
        places.append((x, cycle))
        x += width
    _parts(picture, places, width)
    _ruler(picture, places, width, floor)
    _after(picture, after, x, floor, tail)
    return picture.markup("pipeline")


def _cycle(picture: Drawing, cost: CostReport, cycle: Cycle, x: float, width: float) -> None:
    scale = width / cycle.seconds if cycle.seconds else 0.0
    unit = time_unit([cycle.seconds])
    for ipu in range(cost.plan.n_ipus_per_replica):
        tip = f"IPU {ipu} waits\ncycle {cycle.index:,}, {cycle.part}"
        picture.rect(x, _TOP + ipu * _ROW + 2, width - 0.6, _ROW - 4, "idle", tip)
    for part in cycle.slices:
        y, left = _TOP + part.ipu * _ROW + 2, x + (part.start - cycle.start) * scale
        begin = cost.stages[part.stage].begin or "the start"
        tip = (
            f"IPU {part.ipu}: {part.direction} of micro-batch {part.micro_batch:,}\nstage {part.stage}, from {begin}\n"
            f"{unit.full(part.seconds)} of a cycle of {unit.full(cycle.seconds)}; cycle {cycle.index:,}, {cycle.part}"
        )
        wide = max(0.4, part.seconds * scale - 0.4)
        picture.rect(left, y, wide, _ROW - 4, f"d-{part.direction}", tip)
        text = str(part.micro_batch)
        if wide > 7.5 * len(text) and part.direction != "recompute":
            picture.text(left + wide / 2, y + _ROW * 0.58, text, "on-bar", anchor="middle")


def _break(picture: Drawing, x: float, floor: float, n_left_out: int) -> None:
    middle = x + _BREAK / 2
    picture.rect(x + 2, _TOP + 2, _BREAK - 4, floor - _TOP - 4, "pause", f"{n_left_out:,} more steady cycles")
    y = (_TOP + floor) / 2
    picture.text(middle, y - 4, f"{n_left_out:,}", "value", anchor="middle")
    picture.text(middle, y + 12, "cycles more", "axis", anchor="middle")


def _parts(picture: Drawing, places: List[Tuple[float, Cycle]], width: float) -> None:
    """Brackets over ramp up, steady and ramp down."""
    for name in ("ramp up", "steady", "ramp down"):
        own = [x for x, cycle in places if cycle.part == name]
        if own:
            start, end = own[0], own[-1] + width
            picture.line(start + 1, _TOP - 6, end - 1, _TOP - 6, "bracket")
            if end - start > 50:
                picture.text((start + end) / 2, _TOP - 12, name, "axis", anchor="middle")


def _ruler(picture: Drawing, places: List[Tuple[float, Cycle]], width: float, floor: float) -> None:
    last = places[-1][1]
    unit = time_unit([last.start + last.seconds])
    shown = [places[0], places[len(places) // 2], places[-1]] if len(places) > 2 else places
    for x, cycle in shown:
        picture.line(x, floor, x, floor + 5, "rule")
        picture.text(x, floor + 18, unit.full(cycle.start), "axis", anchor="start" if x < WIDTH - 200 else "end")
    picture.line(places[0][0], floor, places[-1][0] + width, floor, "rule")


def _after(picture: Drawing, after: List[Tuple[Phase, float]], x: float, floor: float, width: float) -> None:
    """What the replica does as a whole, not to scale: it may be a thousandth of the update or most of it."""
    if not after:
        return
    unit = time_unit(seconds for _, seconds in after)
    step = (floor - _TOP) / len(after)
    for i, (phase, seconds) in enumerate(after):
        y = _TOP + i * step
        name = "p-" + phase.name.lower().replace("_", "-")
        picture.rect(x + 6, y + 2, width - 8, step - 4, name, f"after the last cycle: {phase.value}\n{unit.full(seconds)}", round_=2)
        if step >= 13:
            picture.text(x + width / 2 + 2, y + step / 2 + 4, phase.value, "on-bar", anchor="middle")
    picture.text(x + width / 2, _TOP - 12, "then (not to scale)", "axis", anchor="middle")
