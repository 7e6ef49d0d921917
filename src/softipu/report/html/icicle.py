"""Time as an icicle: the whole step above, modules within modules below it, op families at the tips."""

from dataclasses import dataclass, field
from typing import Callable, Dict, List, Sequence

from softipu.report.cost_report import CostReport, ModuleTime
from softipu.report.html.drawing import WIDTH, Drawing
from softipu.report.units import flop_unit, percent, time_unit

_ROW = 25.0
N_COLOURS = 10


@dataclass
class Box:
    """A part of the time and what it is made of."""

    name: str
    path: str
    family: str = ""
    seconds: float = 0.0
    flops: float = 0.0
    n_ops: int = 0
    parts: Dict[str, "Box"] = field(default_factory=dict)

    def add(self, row: ModuleTime) -> None:
        self.seconds += row.seconds.total
        self.flops += row.flops
        self.n_ops += row.n_ops

    def depth(self) -> int:
        return 1 + max((part.depth() for part in self.parts.values()), default=0)


def family_ranks(rows: Sequence[ModuleTime]) -> Dict[str, int]:
    """Op families by time, the largest first."""
    seconds: Dict[str, float] = {}
    for row in rows:
        seconds[row.family] = seconds.get(row.family, 0.0) + row.seconds.total
    return {name: rank for rank, name in enumerate(sorted(seconds, key=lambda name: (-seconds[name], name)))}


def colour_of(rank: int) -> str:
    """Class of a family's colour; small ones share a grey."""
    return f"f-{rank}" if rank < N_COLOURS else "f-other"


def by_module(row: ModuleTime) -> List[str]:
    """Module path, then op family and direction."""
    return [*(row.module.split(".") if row.module else ["(model)"]), row.family, row.direction]


def by_family(row: ModuleTime) -> List[str]:
    """Op family, then direction, then the module with what distinguishes layers left out."""
    layerless = ".".join("*" if part.isdigit() else part for part in row.module.split("."))
    return [row.family, row.direction, layerless or "(model)"]


def tree(rows: Sequence[ModuleTime], path_of: Callable[[ModuleTime], List[str]], *, family_at: int) -> Box:
    """Rows as boxes in boxes. ``family_at``: from which step of the path (negative: from its end) a box is of one op family."""
    root = Box("all", "")
    for row in rows:
        root.add(row)
        box, path = root, path_of(row)
        first = family_at if family_at >= 0 else len(path) + family_at
        for i, name in enumerate(path):
            key = f"{name} \u00b7" if i >= first else name
            if key not in box.parts:
                box.parts[key] = Box(
                    name, ".".join(path[: i + 1]) if i < first else " \u203a ".join(path[first : i + 1]), row.family if i >= first else ""
                )
            box = box.parts[key]
            box.add(row)
    return root


def icicle(cost: CostReport, root: Box, label: str) -> str:
    """The tree from left to right in the order that modules run; a click on a box makes it as wide as the picture."""
    ranks = family_ranks(cost.modules)
    picture = Drawing(WIDTH, _ROW * root.depth(), label)
    unit = time_unit([root.seconds])
    flops = flop_unit([root.flops])

    def draw(box: Box, start: float, level: int) -> None:
        share = box.seconds / root.seconds if root.seconds else 0.0
        x0, x1 = start * WIDTH, (start + share) * WIDTH
        if x1 - x0 < 0.02:
            return
        shade = colour_of(ranks[box.family]) if box.family else f"module level-{min(level, 5)}"
        work = f"{flops.full(box.flops)}, {box.n_ops:,} ops"
        tip = f"{box.path or 'one micro-batch on all IPUs'}\n{unit.full(box.seconds)}, {percent(share)}\n{work}"
        data = f'data-x="{start:.6f}" data-w="{share:.6f}"'
        picture.rect(x0, level * _ROW, max(0.1, x1 - x0 - 0.5), _ROW - 1, shade, tip, data=data)
        hidden = "" if x1 - x0 > 6.6 * len(box.name) + 6 else " tight"
        picture.text(x0 + 4, level * _ROW + _ROW * 0.66, box.name, f"{'on-bar' if box.family else 'on-module'}{hidden}", data=data)
        for part in box.parts.values():
            draw(part, start, level + 1)
            start += part.seconds / root.seconds if root.seconds else 0.0

    draw(root, 0.0, 0)
    return picture.markup("icicle")
