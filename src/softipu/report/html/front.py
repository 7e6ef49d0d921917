"""What a search compared: throughput against memory, one dot for each plan of the front."""

from softipu.report.html.drawing import WIDTH, Drawing, ticks
from softipu.report.plan_report import SearchResult
from softipu.report.units import MEBIBYTES, percent, three_digits
from softipu.report.words import layout_words

_HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 280.0, 84.0, 130.0, 16.0, 44.0


def front(search: SearchResult) -> str:
    """Throughput upwards, memory of the fullest tile to the right, the number of IPUs as colour."""
    fastest = max(c.items_per_second for c in search.front)
    fullest = max(1.0, max(c.tile_fraction for c in search.front))
    floor = _HEIGHT - _BOTTOM
    x_scale = (WIDTH - _LEFT - _RIGHT) / (fullest * 1.02)
    y_scale = (floor - _TOP) / (fastest * 1.08)
    picture = Drawing(WIDTH, _HEIGHT, "Plans of the front: samples per second against use of the fullest tile")
    for tick in ticks(fastest * 1.05, 5):
        picture.line(_LEFT, floor - tick * y_scale, WIDTH - _RIGHT, floor - tick * y_scale, "grid")
        picture.text(_LEFT - 8, floor - tick * y_scale + 4, three_digits(tick), "axis", anchor="end")
    for tick in ticks(fullest, 5):
        picture.line(_LEFT + tick * x_scale, _TOP, _LEFT + tick * x_scale, floor, "grid")
        picture.text(_LEFT + tick * x_scale, floor + 17, f"{100 * tick:.0f} %", "axis", anchor="middle")
    picture.text(_LEFT - 8, _TOP - 4, "samples/s", "axis", anchor="end")
    picture.text(_LEFT + (WIDTH - _LEFT - _RIGHT) / 2, floor + 36, "use of the fullest tile", "axis", anchor="middle")
    picture.line(_LEFT + x_scale, _TOP, _LEFT + x_scale, floor, "limit")
    sizes = sorted({c.n_ipus for c in search.front})
    for size in sizes:
        own = sorted((c for c in search.front if c.n_ipus == size), key=lambda c: c.tile_fraction)
        rank = sizes.index(size)
        picture.path([(_LEFT + c.tile_fraction * x_scale, floor - c.items_per_second * y_scale) for c in own], f"front-line s-{rank % 8}")
        for c in own:
            tip = (
                f"{three_digits(c.items_per_second)} samples/s on {c.n_ipus} IPUs\n{layout_words(c.plan)}\n"
                f"fullest IPU {MEBIBYTES.full(c.memory_bytes)}, fullest tile {percent(c.tile_fraction)}"
            )
            best = " best" if c is search.best else ""
            x, y = _LEFT + c.tile_fraction * x_scale, floor - c.items_per_second * y_scale
            picture.circle(x, y, 7 if best else 5, f"dot s-{rank % 8}{best}", tip)
        y = _TOP + 14 + rank * 20
        picture.circle(WIDTH - _RIGHT + 24, y - 4, 5, f"dot s-{rank % 8}")
        picture.text(WIDTH - _RIGHT + 36, y, f"{size} IPU{'s' if size > 1 else ''}", "label")
    return picture.markup()
