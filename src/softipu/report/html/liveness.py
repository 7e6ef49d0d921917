"""Memory of one IPU over its part of a micro-batch."""

import json
from typing import Dict, List, Tuple

from softipu.report.cost_report import IpuMemory
from softipu.report.estimate import Estimate
from softipu.report.html.drawing import WIDTH, Drawing, ticks
from softipu.report.units import MIB

HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 254.0, 64.0, 16.0, 34.0, 24.0


def liveness(memory: IpuMemory) -> str:
    """Always-live memory below, live activations and temporary memory on top of it, one step for each op."""
    points = memory.liveness
    base = Estimate.sum(e for c, e in memory.by_category.items() if c.always_live).total
    largest = max([memory.available_bytes * 1.05] + [base + p.live_bytes + p.temporary_bytes for p in points])
    scale = (HEIGHT - TOP - BOTTOM) / largest
    floor = HEIGHT - BOTTOM
    step = (WIDTH - LEFT - RIGHT) / max(1, len(points))
    picture = Drawing(WIDTH, HEIGHT, f"Memory of IPU {memory.ipu} over its part of a micro-batch, in MiB")
    named = ""
    for start, end, phase in _runs([p.phase for p in points]):
        x, width = LEFT + start * step, (end - start) * step
        picture.rect(x, TOP, width, floor - TOP, f"band d-{phase}")
        # Slivers of recomputation cut a backward pass up; its name stands once. The limit's own name stands below the phases'.
        if width > 40 and phase != named:
            picture.text(x + width / 2, TOP - 14, phase, "axis", anchor="middle")
            named = phase
    for tick in ticks(largest / MIB, 4):
        y = floor - tick * MIB * scale
        picture.line(LEFT, y, WIDTH - RIGHT, y, "grid")
        picture.text(LEFT - 8, y + 4, f"{tick:,.0f}" + (" MiB" if tick == 0 else ""), "axis", anchor="end")
    levels = [(floor, [base] * len(points), "a-base"), (0.0, [base + p.live_bytes for p in points], "a-live")]
    levels.append((0.0, [base + p.live_bytes + p.temporary_bytes for p in points], "a-temporary"))
    for (_, heights, css), below in reversed(list(zip(levels, [[0.0] * len(points), levels[0][1], levels[1][1]]))):
        outline = _steps(heights, step, floor, scale) + list(reversed(_steps(below, step, floor, scale)))
        picture.path(outline, css, closed=True)
    y = floor - memory.available_bytes * scale
    picture.line(LEFT, y, WIDTH - RIGHT, y, "limit")
    picture.text(WIDTH - RIGHT, y - 5, f"{memory.available_bytes / MIB:,.0f} MiB", "limit-label", anchor="end")
    picture.line(LEFT, TOP, LEFT, floor, "cursor")
    picture.rect(LEFT, TOP, WIDTH - LEFT - RIGHT, floor - TOP, "hit")
    picture.text(LEFT, HEIGHT - 6, "ops in the order that they run \u2192", "axis")
    data = f'data-left="{LEFT:g}" data-step="{step:.6g}" data-points="{_attribute(memory, base)}"'
    return f'<div class="liveness" {data}>{picture.markup()}</div>'


def _steps(heights: List[float], step: float, floor: float, scale: float) -> List[Tuple[float, float]]:
    found = []
    for i, height in enumerate(heights):
        y = floor - height * scale
        found += [(LEFT + i * step, y), (LEFT + (i + 1) * step, y)]
    return found


def _runs(values: List[str]) -> List[Tuple[int, int, str]]:
    """(begin, end, value) of equal neighbours."""
    found: List[Tuple[int, int, str]] = []
    for i, value in enumerate(values):
        if found and found[-1][2] == value:
            found[-1] = (found[-1][0], i + 1, value)
        else:
            found.append((i, i + 1, value))
    return found


def _attribute(memory: IpuMemory, base: float) -> str:
    """What the page shows on hover, as the value of an attribute: a table of names, and per point their indices and MiB."""
    names: Dict[str, int] = {}
    points = []
    for p in memory.liveness:
        where = names.setdefault(p.module or "(model)", len(names))
        points.append(
            [names.setdefault(p.op, len(names)), where, names.setdefault(p.phase, len(names)), _mib(p.live_bytes), _mib(p.temporary_bytes)]
        )
    text = json.dumps({"names": list(names), "base": _mib(base), "points": points}, separators=(",", ":"))
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def _mib(value: float) -> float:
    return round(value / MIB, 2)
