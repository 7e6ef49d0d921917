"""The best way to cut a row of units into stages, by dynamic programming; exact for the costs that it is given.

best[k][j] is the best way to put the first j units into k stages. The last of those stages begins at some i < j, so
best[k][j] = min over i of max(best[k-1][i], cost of units i to j as stage k-1). The loop over i begins where the stage before, one unit
shorter, began, and stops upwards where no more can be gained and downwards where a bound on the stage alone is past what was reached.
"""

from dataclasses import dataclass
from itertools import accumulate
from typing import Callable, List, Optional, Tuple

NEVER = float("inf")


@dataclass(frozen=True)
class Choice:
    """A stage with what was chosen for it.

    Attributes:
        begin, end: its units.
        seconds: of one micro-batch.
        tile_fraction: use of the fullest tile of its IPU; at most 1 fits.
        recompute: whether it computes activations again.
        checkpoints: whether it then keeps what its layers return, and computes one layer at a time again.
    """

    begin: int
    end: int
    seconds: float
    tile_fraction: float
    recompute: bool
    checkpoints: bool = True


@dataclass(frozen=True)
class Bounds:
    """What a stage of some units takes at least, whatever is chosen for it; neither falls when a unit is added."""

    seconds: Callable[[int, int], float]
    tile_fraction: Callable[[int, int], float]


Costs = Callable[[int, int, int], List[Choice]]


def split(n_units: int, n_stages: int, costs: Costs, bounds: Bounds, slowest_allowed: float = NEVER) -> Optional[Tuple[Choice, ...]]:
    """Stages in order, such that the slowest takes as little time as can be, and then the fullest tile is as empty as can be.

    Args:
        n_units: to be cut, at least one for each stage.
        n_stages: how many stages to make.
        costs: (begin, end, stage) -> the choices for a stage of these units.
        bounds: what a stage takes at least.
        slowest_allowed: no stage may take longer; for a caller that has a better plan already.

    Returns:
        None when no cut fits.
    """
    if n_units < n_stages:
        return None
    fastest = _Table(n_units, n_stages, costs, bounds, slowest_allowed, 1.0).best(by_time=True)
    if fastest is None:
        return None
    slowest = max(choice.seconds for choice in fastest)
    return _Table(n_units, n_stages, costs, bounds, slowest, 1.0).best(by_time=False)


def leanest(n_units: int, n_stages: int, costs: Costs, bounds: Bounds) -> Optional[Tuple[Choice, ...]]:
    """The cut whose fullest tile is as empty as can be, whether it fits or not."""
    if n_units < n_stages:
        return None
    return _Table(n_units, n_stages, costs, bounds, NEVER, NEVER).best(by_time=False)


class _Table:
    def __init__(self, n_units: int, n_stages: int, costs: Costs, bounds: Bounds, slowest: float, fullest: float) -> None:
        self.n_units, self.n_stages, self.costs, self.bounds = n_units, n_stages, costs, bounds
        self.slowest, self.fullest = slowest, fullest

    def best(self, *, by_time: bool) -> Optional[Tuple[Choice, ...]]:
        """Minimises the largest ``seconds`` (or the largest ``tile_fraction``) among cuts within both limits."""
        reached: List[float] = [0.0] + [NEVER] * self.n_units
        taken: List[List[Optional[Choice]]] = []
        for stage in range(self.n_stages):
            values, choices = [NEVER] * (self.n_units + 1), [None] * (self.n_units + 1)  # type: List[float], List[Optional[Choice]]
            # The least that is reached from each unit on, so that the search for the begin of a stage knows where to stop.
            least = list(reversed(list(accumulate(reversed(reached), min))))
            last = stage == self.n_stages - 1
            start = stage
            for end in [self.n_units] if last else range(stage + 1, self.n_units - (self.n_stages - stage - 1) + 1):
                start = max(stage, min(start, end - 1))
                values[end], choices[end] = self._stage(reached, least, stage, start, end, by_time)
                best_choice = choices[end]
                start = best_choice.begin if best_choice is not None else start
            reached = values
            taken.append(choices)
        found: List[Choice] = []
        end = self.n_units
        for choices in reversed(taken):
            choice = choices[end]
            if choice is None:
                return None
            found.append(choice)
            end = choice.begin
        return tuple(reversed(found))

    def _stage(
        self, reached: List[float], least: List[float], stage: int, start: int, end: int, by_time: bool
    ) -> Tuple[float, Optional[Choice]]:
        """The best begin of a stage that ends at ``end``, looked for from ``start`` on in both directions."""
        best, best_choice = NEVER, None

        def look(begin: int) -> None:
            nonlocal best, best_choice
            for choice in self.costs(begin, end, stage) if reached[begin] < best else ():
                if choice.seconds <= self.slowest and choice.tile_fraction <= self.fullest:
                    value = max(reached[begin], choice.seconds if by_time else choice.tile_fraction)
                    if value < best:
                        best, best_choice = value, choice

        for begin in range(start, end):  # shorter stages, after more and more units
            if least[begin] >= best:
                break
            if not self._too_long(begin, end, best, by_time):
                look(begin)
        for begin in range(start - 1, stage - 1, -1):  # longer ones
            if self._too_long(begin, end, best, by_time):
                break
            look(begin)
        return best, best_choice

    def _too_long(self, begin: int, end: int, best: float, by_time: bool) -> bool:
        seconds, tile = self.bounds.seconds(begin, end), self.bounds.tile_fraction(begin, end)
        return seconds > self.slowest or tile > self.fullest or (seconds if by_time else tile) >= best
