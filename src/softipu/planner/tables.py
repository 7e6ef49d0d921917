"""Sums and maxima over stages [begin, end) of a row of units, for all stages at once."""

from itertools import accumulate
from typing import List, Sequence


class StageSums:
    """Adds sizes to whole rectangles of (begin, end), then answers for any stage in constant time."""

    def __init__(self, n_units: int) -> None:
        self._n = n_units
        self._changes: List[List[float]] = [[0.0] * (n_units + 2) for _ in range(n_units + 2)]
        self._sums: List[List[float]] = []

    def add(self, size: float, first_begin: int, last_begin: int, first_end: int) -> None:
        """``size`` for every stage that begins from ``first_begin`` to ``last_begin`` and ends at ``first_end`` or later."""
        if first_begin <= last_begin and first_end <= self._n:
            self._changes[first_begin][first_end] += size
            self._changes[last_begin + 1][first_end] -= size

    def add_made_and_read(self, size: float, maker: int, reader: int) -> None:
        """``size`` for every stage that has both the unit that makes something and the first one that reads it."""
        self.add(size, 0, maker, reader + 1)

    def add_read_from_outside(self, size: float, maker: int, readers: Sequence[int]) -> None:
        """``size`` for every stage after ``maker`` (-1: whatever the stage) that has one of the ``readers``, in order."""
        after = maker
        for reader in readers:
            if reader > maker:
                self.add(size, after + 1, reader, reader + 1)
                after = reader

    def add_read_from_behind(self, size: float, maker: int, readers: Sequence[int]) -> None:
        """``size`` for every stage before ``maker`` that has one of the ``readers``, in order: gradients come from later stages."""
        before = [reader for reader in readers if reader < maker]
        for reader, following in zip(before, [*before[1:], maker]):
            self.add(size, 0, reader, reader + 1)
            self.add(-size, 0, reader, following + 1)

    def of(self, begin: int, end: int) -> float:
        """The sum for units ``begin`` to ``end``."""
        if not self._sums:
            above = [0.0] * (self._n + 2)
            for row in self._changes:
                above = [a + b for a, b in zip(above, accumulate(row))]
                self._sums.append(above)
            self._changes = []
        return self._sums[begin][end]


class Running:
    """Sums of neighbours."""

    def __init__(self, values: Sequence[float]) -> None:
        self._sums = [0.0, *accumulate(values)]

    def of(self, begin: int, end: int) -> float:
        return self._sums[end] - self._sums[begin]


class Largest:
    """Maxima of neighbours, by maxima of runs of 1, 2, 4 ... of them."""

    def __init__(self, values: Sequence[float]) -> None:
        self._levels: List[List[float]] = [list(values)]
        width = 1
        while 2 * width <= len(values):
            last = self._levels[-1]
            self._levels.append([max(last[i], last[i + width]) for i in range(len(last) - width)])
            width *= 2

    def of(self, begin: int, end: int) -> float:
        if end <= begin:
            return 0.0
        level = (end - begin).bit_length() - 1
        values = self._levels[level]
        return max(values[begin], values[end - (1 << level)])
