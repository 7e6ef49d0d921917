"""SVG as text: elements with classes, for a style sheet to colour, and a ``<title>`` that the page shows on hover."""

import math
from html import escape
from typing import List, Tuple

WIDTH = 1080.0


class Drawing:
    """An SVG picture that scales with the page.

    Args:
        width, height: of its own coordinates.
        label: what it shows, for readers of the page who do not see it.
    """

    def __init__(self, width: float, height: float, label: str) -> None:
        self.width, self.height, self.label = width, height, label
        self._parts: List[str] = []

    def rect(
        self, x: float, y: float, width: float, height: float, classes: str, tip: str = "", *, round_: float = 0.0, data: str = ""
    ) -> None:
        """A rectangle; nothing where it has no area. ``data``: further attributes, ready to print."""
        if width <= 0 or height <= 0:
            return
        corner = f' rx="{n(round_)}"' if round_ else ""
        head = f'<rect x="{n(x)}" y="{n(y)}" width="{n(width)}" height="{n(height)}"{corner} class="{classes}"{data and " " + data}'
        self._parts.append(f"{head}><title>{escape(tip)}</title></rect>" if tip else head + "/>")

    def line(self, x1: float, y1: float, x2: float, y2: float, classes: str) -> None:
        self._parts.append(f'<line x1="{n(x1)}" y1="{n(y1)}" x2="{n(x2)}" y2="{n(y2)}" class="{classes}"/>')

    def text(self, x: float, y: float, content: str, classes: str = "", *, anchor: str = "start", data: str = "") -> None:
        """``anchor``: start, middle or end; ``y`` is the base line."""
        at = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._parts.append(f'<text x="{n(x)}" y="{n(y)}"{at} class="{classes}"{data and " " + data}>{escape(content)}</text>')

    def path(self, points: List[Tuple[float, float]], classes: str, *, closed: bool = False) -> None:
        """Straight lines through ``points``."""
        if points:
            steps = "L".join(f"{n(x)} {n(y)}" for x, y in points)
            self._parts.append(f'<path d="M{steps}{"Z" if closed else ""}" class="{classes}"/>')

    def circle(self, x: float, y: float, radius: float, classes: str, tip: str = "") -> None:
        title = f"<title>{escape(tip)}</title>" if tip else ""
        self._parts.append(f'<circle cx="{n(x)}" cy="{n(y)}" r="{n(radius)}" class="{classes}">{title}</circle>')

    def raw(self, markup: str) -> None:
        """Markup as it is, such as the begin and end of a group."""
        self._parts.append(markup)

    def markup(self, classes: str = "") -> str:
        """The picture as an element of a page."""
        box = f'viewBox="0 0 {n(self.width)} {n(self.height)}" role="img" aria-label="{escape(self.label)}"'
        return f'<svg {box} class="{classes}">{"".join(self._parts)}</svg>'


def n(value: float) -> str:
    """A coordinate in a hundredth of a pixel, without trailing zeros."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("", "-0") else text


def ticks(largest: float, most: int = 6) -> List[float]:
    """Round numbers from 0 to ``largest``, at most ``most`` steps."""
    if largest <= 0:
        return [0.0]
    rough = largest / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    return [i * step for i in range(int(largest / step + 1e-9) + 1)]
