"""The workload of a step at any micro-batch, from captures at two: sizes are linear in the number of items.

A capture of a large model takes seconds, and a search looks at many micro-batches. Every dimension, count and size of an op is either
the same for all of them or grows by the same amount with every item, so two captures tell all. Where the two have different ops, the step
does something else for each size, and each is captured.
"""

from dataclasses import fields, is_dataclass
from typing import Any, Callable, Dict, Optional

from softipu.cost.workload import Workload, read_step
from softipu.graph import Step


class NotLinear(Exception):
    """The workloads of two micro-batches differ in more than sizes."""


class MicroBatches:
    """Workloads by micro-batch.

    Args:
        step_at: captures the step for micro-batches of so many items.
        first: the micro-batch to capture first.
    """

    def __init__(self, step_at: Callable[[int], Step], first: int) -> None:
        self._step_at, self.first = step_at, first
        self._known: Dict[int, Workload] = {}
        self._second: Optional[int] = None
        self._linear = True

    def at(self, n: int) -> Workload:
        """The workload of micro-batches of ``n`` items.

        Raises:
            UnknownOpError: an op without a work rule; other errors are those of the capture.
        """
        self._capture(self.first)
        if n not in self._known and self._linear:
            self._second = self._second or 2 * self.first
            self._capture(self._second)
            try:
                self._known[n] = between(self._known[self.first], self._known[self._second], self.first, self._second, n)
            except NotLinear:
                self._linear = False
        self._capture(n)
        return self._known[n]

    def _capture(self, n: int) -> None:
        if n not in self._known:
            self._known[n] = read_step(self._step_at(n))


def between(low: Workload, high: Workload, at_low: int, at_high: int, n: int) -> Workload:
    """The workload of ``n`` items from those of ``at_low`` and ``at_high`` items.

    Raises:
        NotLinear: the two differ in more than sizes.
    """
    found: Workload = _between(low, high, (n - at_low) / (at_high - at_low))
    return found


def _between(low: Any, high: Any, t: float) -> Any:
    if low is high:
        return low
    if type(low) is not type(high):
        raise NotLinear(f"{low!r} and {high!r}")
    if isinstance(low, bool) or not isinstance(low, (int, float, tuple)) and not is_dataclass(low):
        if low != high:
            raise NotLinear(f"{low!r} and {high!r}")
        return low
    if isinstance(low, int):
        return low if low == high else max(1, round(low + (high - low) * t))
    if isinstance(low, float):
        return low if low == high else max(0.0, low + (high - low) * t)
    if isinstance(low, tuple):
        if len(low) != len(high):
            raise NotLinear(f"{len(low)} and {len(high)} entries")
        if hasattr(low, "_fields"):
            return type(low)(*(_between(a, b, t) for a, b in zip(low, high)))
        return tuple(_between(a, b, t) for a, b in zip(low, high))
    made: Any = type(low)
    return made(**{f.name: _between(getattr(low, f.name), getattr(high, f.name), t) for f in fields(low) if f.init})
