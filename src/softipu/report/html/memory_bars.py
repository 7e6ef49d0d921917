"""Memory of each IPU as a stacked bar against what it has."""

from softipu.report.cost_report import CostReport, IpuMemory, MemoryCategory
from softipu.report.html.drawing import WIDTH, Drawing, ticks
from softipu.report.units import KIBIBYTES, MEBIBYTES, MIB, bytes_words, percent

_ROW, _BAR, _LEFT, _RIGHT, _TOP = 30.0, 20.0, 64.0, 96.0, 24.0


def css_name(category: MemoryCategory) -> str:
    """Class of a category in the style sheet."""
    return "m-" + category.name.lower().replace("_", "-")


def memory_bars(cost: CostReport) -> str:
    """One bar for each IPU, a line at the memory that an IPU has, a mark at what the fullest tile amounts to."""
    bottom = _TOP + _ROW * len(cost.memory)
    available = cost.memory[0].available_bytes
    needs = [max(m.total.total, m.worst_tile_bytes * m.n_tiles) for m in cost.memory]
    largest = max(available * 1.04, max(needs) * 1.02)
    scale = (WIDTH - _LEFT - _RIGHT) / largest
    picture = Drawing(WIDTH, bottom + 26, "Memory of each IPU by category, in MiB")
    for tick in ticks(largest / MIB):
        x = _LEFT + tick * MIB * scale
        picture.line(x, _TOP - 4, x, bottom, "grid")
        picture.text(x, bottom + 16, f"{tick:,.0f}" + (" MiB" if tick == 0 else ""), "axis", anchor="middle")
    for row, memory in enumerate(cost.memory):
        _bar(picture, memory, _TOP + row * _ROW, scale)
    x = _LEFT + available * scale
    picture.line(x, _TOP - 8, x, bottom, "limit")
    picture.text(x, _TOP - 12, f"{MEBIBYTES.show(available)} MiB", "limit-label", anchor="middle")
    return picture.markup()


def _bar(picture: Drawing, memory: IpuMemory, y: float, scale: float) -> None:
    top = y + (_ROW - _BAR) / 2
    base = top + _BAR * 0.72
    total = memory.total.total
    picture.raw(f'<g class="pick" data-pick="{memory.ipu}">')
    picture.rect(0, y, WIDTH, _ROW, "hit", f"IPU {memory.ipu}\n{memory.what}\n{MEBIBYTES.full(total)} in all")
    picture.text(_LEFT - 10, base, f"IPU {memory.ipu}", "label", anchor="end")
    at = _LEFT
    for category in MemoryCategory:
        if category in memory.by_category and memory.by_category[category].total:
            part = memory.by_category[category]
            rests = ", ".join(f"{percent(share)} {name}" for name, share in part.shares().items() if share >= 0.0005)
            live = "always live" if category.always_live else "at the peak"
            size = f"{bytes_words(part.total)}, {percent(part.total / total)} of it, {live}"
            tip = f"IPU {memory.ipu}: {category.value}\n{size}\nrests on: {rests}"
            picture.rect(at, top, part.total * scale, _BAR, css_name(category), tip, data=f'data-series="{css_name(category)}"')
            at += part.total * scale
    tile = _LEFT + memory.worst_tile_bytes * memory.n_tiles * scale
    picture.raw(f'<g class="{"tile-mark" if memory.fits else "tile-mark over"}">')
    picture.line(tile, top - 3, tile, top + _BAR + 3, "")
    tip = f"fullest tile of IPU {memory.ipu}\n{KIBIBYTES.full(memory.worst_tile_bytes)} of {KIBIBYTES.full(memory.tile_available_bytes)}"
    picture.rect(tile - 4, top - 3, 8, _BAR + 6, "hit", tip)
    picture.raw("</g>")
    text = MEBIBYTES.full(total) if memory.fits else f"{MEBIBYTES.full(total)} \u2716"
    picture.text(WIDTH, base, text, "value" if memory.fits else "value over", anchor="end")
    picture.raw("</g>")
