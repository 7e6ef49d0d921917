"""How full the tiles of one IPU are."""

from softipu.report.cost_report import IpuMemory
from softipu.report.html.drawing import WIDTH, Drawing, ticks
from softipu.report.units import KIB, KIBIBYTES, counted

_HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 190.0, 64.0, 16.0, 26.0, 28.0


def tile_histogram(memory: IpuMemory) -> str:
    """One bar for each band of memory, a line at what a tile has."""
    largest = max(
        memory.tile_available_bytes * 1.06, memory.worst_tile_bytes * 1.02, max((b.high_bytes for b in memory.tiles), default=0.0)
    )
    tallest = max((b.n_tiles for b in memory.tiles), default=1)
    floor = _HEIGHT - _BOTTOM
    x_scale = (WIDTH - _LEFT - _RIGHT) / largest
    y_scale = (floor - _TOP) / (tallest * 1.05)
    picture = Drawing(WIDTH, _HEIGHT, f"Tiles of IPU {memory.ipu} by memory in use, in KiB")
    for tick in ticks(tallest, 4):
        y = floor - tick * y_scale
        picture.line(_LEFT, y, WIDTH - _RIGHT, y, "grid")
        picture.text(_LEFT - 8, y + 4, f"{tick:,.0f}" + (" tiles" if tick == 0 else ""), "axis", anchor="end")
    for tick in ticks(largest / KIB, 8):
        x = _LEFT + tick * KIB * x_scale
        picture.text(x, floor + 18, f"{tick:,.0f}" + (" KiB" if tick == 0 else ""), "axis", anchor="middle")
    for band in memory.tiles:
        over = band.high_bytes > memory.tile_available_bytes
        width = max(2.0, (band.high_bytes - band.low_bytes) * x_scale - 1)
        height = max(2.0 if band.n_tiles else 0.0, band.n_tiles * y_scale)
        tip = f"{counted(band.n_tiles, 'tile')}\n{KIBIBYTES.show(band.low_bytes)} to {KIBIBYTES.full(band.high_bytes)}"
        picture.rect(_LEFT + band.low_bytes * x_scale, floor - height, width, height, "tile over" if over else "tile", tip)
    x = _LEFT + memory.tile_available_bytes * x_scale
    picture.line(x, _TOP - 6, x, floor, "limit")
    picture.text(x, _TOP - 10, KIBIBYTES.full(memory.tile_available_bytes), "limit-label", anchor="middle")
    picture.line(_LEFT, floor, WIDTH - _RIGHT, floor, "rule")
    return picture.markup()
