"""Numbers as people read them: three significant digits, one prefix for a whole column."""

from dataclasses import dataclass
from typing import Iterable, Sequence, Tuple

MIB = 1024.0 * 1024.0
KIB = 1024.0

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_FLOPS = ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"), (1.0, "FLOP"))


@dataclass(frozen=True)
class Unit:
    """What the numbers of a column are divided by, and what the quotient is called."""

    size: float
    name: str

    def show(self, value: float) -> str:
        """``value`` in this unit, without its name."""
        return three_digits(value / self.size)

    def full(self, value: float) -> str:
        """``value`` with the unit's name."""
        return f"{self.show(value)} {self.name}"


MEBIBYTES = Unit(MIB, "MiB")
KIBIBYTES = Unit(KIB, "KiB")


def bytes_words(value: float) -> str:
    """One size of memory with the unit that suits it: "12.3 MiB", "8.03 KiB", "640 bytes"."""
    if value >= 0.0995 * MIB:
        return MEBIBYTES.full(value)
    return KIBIBYTES.full(value) if value >= 0.995 * KIB else f"{value:,.0f} bytes"


def three_digits(value: float) -> str:
    """1234567 -> "1,234,567" (digits before the point are all shown), 12.345 -> "12.3", 0.012345 -> "0.0123"."""
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 99.95:
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    if size >= 0.9995:
        return f"{value:.2f}"
    if size >= 0.0009995:
        return f"{value:#.3g}"
    return f"{value:.2e}"


def percent(fraction: float) -> str:
    """0.4567 -> "45.7 %"."""
    return f"{100 * fraction:.1f} %"


def time_unit(values: Iterable[float]) -> Unit:
    """One unit for seconds, such that the largest is at least 1."""
    return _unit(values, _SECONDS)


def flop_unit(values: Iterable[float]) -> Unit:
    """One unit for floating-point operations."""
    return _unit(values, _FLOPS)


def _unit(values: Iterable[float], ladder: Sequence[Tuple[float, str]]) -> Unit:
    largest = max((abs(v) for v in values), default=0.0)
    for size, name in ladder:
        if largest >= size:
            return Unit(size, name)
    return Unit(*ladder[-1 if largest else 0])


def counted(n: int, noun: str) -> str:
    """2, "stage" -> "2 stages"; 1, "replica" -> "1 replica"."""
    return f"{n:,} {noun}" + ("" if n == 1 else "es" if noun.endswith(("s", "ch")) else "s")
