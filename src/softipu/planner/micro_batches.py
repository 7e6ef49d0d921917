"""The workload of a step at any micro-batch, from captures at two: sizes are linear in the number of items.

A capture of a large model takes seconds, and a search looks at many micro-batches. Every dimension, count and size of an op is either the
same for all of them or grows by the same amount with every item, so two captures tell all. Of one item there may be less to do than of
several, so one is not taken for the line. Where two captures have different ops, each micro-batch is captured.
"""

from dataclasses import fields, is_dataclass
from typing import AbstractSet, Any, Callable, Dict, Tuple

from softipu.cost.workload import Workload, read_step
from softipu.graph import Step


class NotLinear(Exception):
    """The workloads of two micro-batches differ in more than sizes."""


class MicroBatches:
    """Workloads by micro-batch.

    Args:
        step_at: captures the step for micro-batches of so many items.
        first: a micro-batch that can be captured; others are got from it.
        containers: modules that are never called.
    """

    def __init__(self, step_at: Callable[[int], Step], first: int, containers: AbstractSet[str] = frozenset()) -> None:
        self._step_at, self.first, self.containers = step_at, first, containers
        self._known: Dict[int, Workload] = {}
        self._linear = True

    def at(self, n: int) -> Workload:
        """The workload of micro-batches of ``n`` items.

        Raises:
            UnknownOpError: an op without a work rule; other errors are those of the capture.
        """
        if n != self.first and n not in self._known and self._linear:
            low = max(2, self.first)
            self._capture(low)
            self._capture(2 * low)
            try:
                self._known[n] = between(self._known[low], self._known[2 * low], low, 2 * low, n)
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
    found: Workload = _Line((n - at_low) / (at_high - at_low)).between(low, high)
    return found


class _Line:
    """Values on the line through two: ``t`` is 0 at the first and 1 at the second."""

    def __init__(self, t: float) -> None:
        self._t = t
        self._made: Dict[Tuple[int, int], Any] = {}  # layers repeat: what stands for the same two objects is one object

    def between(self, low: Any, high: Any) -> Any:
        if low is high:
            return low
        if type(low) is not type(high):
            raise NotLinear(f"{low!r} and {high!r}")
        if isinstance(low, (int, float)) and not isinstance(low, bool):
            return self._number(low, high)
        if isinstance(low, tuple):
            return self._tuple(low, high)
        if is_dataclass(low):
            key = (id(low), id(high))
            if key not in self._made:
                made: Any = type(low)
                values = {f.name: self.between(getattr(low, f.name), getattr(high, f.name)) for f in fields(low) if f.init}
                self._made[key] = made(**values)
            return self._made[key]
        if low != high:
            raise NotLinear(f"{low!r} and {high!r}")
        return low

    def _number(self, low: Any, high: Any) -> Any:
        if low == high:
            return low
        value = low + (high - low) * self._t
        return max(1, round(value)) if isinstance(low, int) else max(0.0, value)

    def _tuple(self, low: Any, high: Any) -> Any:
        if len(low) != len(high):
            raise NotLinear(f"{len(low)} and {len(high)} entries")
        items = (self.between(a, b) for a, b in zip(low, high))
        return type(low)(*items) if hasattr(low, "_fields") else tuple(items)
