"""The search: every micro-batch, number of IPUs and place of the optimizer's state, each with the best stages; the best of them priced.

The dynamic programme finds the best stages of a choice exactly, for sums that leave out how tensors lie on tiles. So what it finds is
priced by the cost model; where that says that a tile overflows, the choice is split again with what was learnt. Where no pipeline fits,
IPUs that take turns are tried, which stash for one micro-batch only; and where these do not fit either, without accumulation.
"""

import time
from dataclasses import dataclass, replace
from typing import Callable, Dict, List, Optional, Tuple

from softipu.capture.update import OptimizerSpec
from softipu.hardware import CALIBRATION, Calibration, System
from softipu.planner.choice import Choice, per_replica
from softipu.planner.fallen import FallenChoices, fraction, tile_words
from softipu.planner.micro_batches import MicroBatches
from softipu.planner.prices import Prices
from softipu.planner.space import Space, powers_of_two
from softipu.planner.splits import Splits
from softipu.planner.splitter import Split, learnt_factors
from softipu.report.cost_report import CostReport
from softipu.report.plan import Plan, Schedule
from softipu.report.plan_report import Candidate, Fallen, SearchResult
from softipu.report.units import counted, three_digits

_MOST_TRIES = 8
_NEARLY_FRACTION = 0.02  # less memory than this is no reason to take a slower plan
_MOST_LEANER = 2  # plans for a number of IPUs besides the fastest, each needing less memory


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes:
        best: price of the best plan; None where nothing fits.
        closest: price of the plan that comes closest to fitting, where nothing does.
        result: what was compared.
    """

    best: Optional[CostReport]
    closest: Optional[CostReport]
    result: SearchResult


class Search:
    """One search.

    Args:
        batches: workloads by micro-batch.
        optimizer: None for inference.
        base: what is not searched: partial sums, temporary memory, device iterations.
        system: what to plan for.
        space: what to choose from.
        say: told what is going on, in words.
    """

    def __init__(
        self,
        batches: MicroBatches,
        optimizer: Optional[OptimizerSpec],
        base: Plan,
        system: System,
        space: Space,
        *,
        calibration: Calibration = CALIBRATION,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._system, self._space, self._training, self._say = system, space, optimizer is not None, say
        base = replace(
            base, stages=Plan().stages, serialized=(), checkpoints=(), schedule=Schedule.PIPELINED, replicated_tensor_sharding=False,
            available_memory_proportion=base.available_memory_proportion[:1],
        )  # fmt: skip
        given = base.available_memory_proportion[0]
        proportions = (given, *(p for p in space.memory_proportions if p < given))
        self._splits = Splits(batches, optimizer, base, proportions, system, calibration)
        self._prices = Prices(batches, optimizer, base, space, system, calibration)
        self._fitted: Dict[Tuple[int, int, bool], Optional[Choice]] = {}
        self._too_large: List[CostReport] = []
        self._rates: Dict[Tuple[int, int, int], float] = {}  # by micro-batch, IPUs of a replica and replicas, the most that was priced
        self._fallen = FallenChoices()
        self._n_choices = self._n_bounded = 0

    def run(self) -> Found:
        """The best plan, the front, and why others fell.

        Raises:
            Error: a number of IPUs that the system does not have.
        """
        start = time.perf_counter()
        choices = self._choices(pipelined=True)
        fitting = self._price_the_best(choices)
        if not fitting:
            choices = self._choices(pipelined=False)
            fitting = self._price_the_best(choices)
        if not fitting and self._training and self._space.items_per_update is None:
            # The last resort: a weight update for each micro-batch needs no accumulators.
            self._splits.accumulates = self._prices.accumulates = False
            self._fitted.clear()
            choices = self._choices(pipelined=False)
            fitting = self._price_the_best(choices)
        front = _front(fitting)
        self._tell_of_beaten(choices, front)
        seconds = time.perf_counter() - start
        candidates = tuple(_candidate(report) for report in front)
        result = SearchResult(candidates, self._fallen.lines(), self._n_choices, self._n_bounded, len(self._prices), seconds)
        closest = min(self._too_large, key=fraction, default=None)
        return Found(front[0] if front else None, closest, result)

    # Choices

    def _choices(self, *, pipelined: bool) -> List[Choice]:
        found: List[Choice] = []
        sizes = [n for n in self._space.sizes(self._system) if pipelined or n > 1]
        for micro_batch in self._space.batches():
            self._say(f"micro-batch {micro_batch}" + ("" if pipelined else ", one IPU at a time"))
            # What does not fit with few items does not fit with more.
            sizes = [n for n in sizes if self._choices_of(micro_batch, n, found, pipelined=pipelined)]
            if not sizes:
                break
        return found

    def _choices_of(self, micro_batch: int, n_ipus: int, found: List[Choice], *, pipelined: bool) -> bool:
        """Adds what fits; whether to go on with more items."""
        every = powers_of_two(self._space.limit(self._system) // n_ipus)
        replicas = [r for r in every if self._allowed(micro_batch, n_ipus, r, pipelined=pipelined)]
        places = [True, False] if self._space.optimizer_state_off_chip and self._training else [False]
        self._n_choices += len(every) * len(places)
        if not replicas or self._is_beaten(micro_batch, n_ipus, replicas[-1], found):
            self._n_bounded += len(every) * len(places)
            return True
        for place in places:
            best = self._splits.fastest(micro_batch, n_ipus, off_chip=place, pipelined=pipelined)
            if best is None:
                if place is places[0]:
                    self._tell_of_overflow(micro_batch, n_ipus, off_chip=place, pipelined=pipelined)
                    return False  # with its state on the chip it needs more
                continue
            found += [Choice(micro_batch, n_ipus, r, place, best[1], best[0]) for r in replicas]
        return True

    def _is_beaten(self, micro_batch: int, n_ipus: int, replicas: int, found: List[Choice]) -> bool:
        """Whether a choice with less memory on as many IPUs is as fast as this one can be at all."""
        bound = micro_batch * replicas / self._splits.least_cycle_seconds(micro_batch, n_ipus)
        return any(c.rate >= bound and c.n_all <= n_ipus * replicas and c.n_ipus <= n_ipus and c.micro_batch < micro_batch for c in found)

    def _allowed(self, micro_batch: int, n_ipus: int, replicas: int, *, pipelined: bool) -> bool:
        wanted = self._space.items_per_update
        if wanted is None or not self._training:
            return True
        each = micro_batch * replicas
        least = 2 * self._splits.depth(micro_batch, n_ipus) - 1 if pipelined else 1
        if wanted % each:
            self._fallen.no_multiple(wanted, each)
            return False
        if wanted // each < least:
            self._fallen.cannot_fill(n_ipus, each, wanted // each, least)
            return False
        return True

    # Prices

    def _price_the_best(self, choices: List[Choice]) -> List[CostReport]:
        """For each number of IPUs the fastest choice that the cost model finds fitting, and some that need clearly less memory."""
        fitting: List[CostReport] = []
        for n_all in sorted({c.n_all for c in choices}, reverse=True):
            found: List[CostReport] = []
            for choice in sorted((c for c in choices if c.n_all == n_all), key=lambda c: (-c.rate, c.off_chip)):
                fullest = min((fraction(r) for r in found), default=2.0)
                fastest = max((r.items_per_second for r in found), default=0.0)
                is_leaner = choice.split.tile_fraction <= fullest - _NEARLY_FRACTION and len(found) <= _MOST_LEANER
                if choice.rate <= fastest and not is_leaner:
                    self._n_bounded += 1
                    continue
                fitted = self._fitting(choice)
                if fitted is not None:
                    found.append(self._prices.of(fitted))
                    key = (choice.micro_batch, choice.n_ipus, choice.replicas)
                    self._rates[key] = max(self._rates.get(key, 0.0), found[-1].items_per_second)
            fitting += found
        return fitting

    def _fitting(self, choice: Choice) -> Optional[Choice]:
        """The choice with stages that fit by the cost model, whatever the number of replicas; None when none of those tried does."""
        group = (choice.micro_batch, choice.n_ipus, choice.off_chip)
        if group not in self._fitted:
            self._fitted[group] = self._try(choice)
        known = self._fitted[group]
        return None if known is None else replace(known, replicas=choice.replicas)

    def _try(self, choice: Choice) -> Optional[Choice]:
        pipelined = choice.split.pipelined
        split: Optional[Split] = choice.split
        factors: Tuple[float, ...] = ()
        for _ in range(_MOST_TRIES):
            if split is None:
                break
            tried = replace(choice, split=split)
            report = self._prices.memory_of(tried)
            if report.fits:
                return tried
            factors = learnt_factors(factors, report, split)
            split = self._splits.again(
                choice.micro_batch, choice.proportion, choice.n_ipus, off_chip=choice.off_chip, pipelined=pipelined, factors=factors
            )
        self._fallen.no_split_fits(choice, report)
        return None

    # Why others fell

    def _tell_of_overflow(self, micro_batch: int, n_ipus: int, *, off_chip: bool, pipelined: bool) -> None:
        more = " and more" if micro_batch != self._space.batches()[-1] else ""
        turns = "" if pipelined else ", one IPU at a time"
        turns += "" if self._splits.accumulates or not self._training else ", without accumulation"
        what = f"{per_replica(n_ipus)}, micro-batch {micro_batch}{more}{turns}"
        report = self._priced_leanest(micro_batch, n_ipus, off_chip=off_chip, pipelined=pipelined)
        if report is None:
            self._fallen.add(Fallen(what, f"the model has fewer than {n_ipus} places where a stage can begin"))
            return
        tricks = ["recomputation"] if any(stage.recompute for stage in report.plan.stages) else []
        tricks += ["the optimizer state off chip"] if off_chip else []
        with_tricks = f", with {' and '.join(tricks)}" if tricks else ""
        worst = report.worst_ipu
        self._fallen.add(Fallen(what, f"the leanest split needs {tile_words(report)} on IPU {worst.ipu}{with_tricks}"))

    def _priced_leanest(self, micro_batch: int, n_ipus: int, *, off_chip: bool, pipelined: bool) -> Optional[CostReport]:
        """The split that needs least, priced."""
        lean = self._splits.leanest(micro_batch, n_ipus, off_chip=off_chip, pipelined=pipelined)
        if lean is None:
            return None
        report = self._prices.memory_of(Choice(micro_batch, n_ipus, 1, off_chip, lean[1], lean[0]))
        self._too_large.append(report)
        return report

    def _tell_of_beaten(self, choices: List[Choice], front: List[CostReport]) -> None:
        """One line for each number of IPUs, of the micro-batches that fit and are not on the front."""
        on_front = {(r.plan.micro_batch, r.plan.n_ipus_per_replica) for r in front}
        for n_ipus in dict.fromkeys(c.n_ipus for c in choices):
            own = [c for c in choices if c.n_ipus == n_ipus and (c.micro_batch, n_ipus) not in on_front]
            own = [c for c in own if self._fitted.get((c.micro_batch, n_ipus, c.off_chip), c) is not None]
            if not own or not front:
                continue
            rates = {c: self._rates.get((c.micro_batch, n_ipus, c.replicas), c.rate) for c in own}
            fastest = max(own, key=lambda c: rates[c])
            better = next((r for r in front if r.plan.n_ipus <= fastest.n_all), front[0])  # the front is sorted by speed
            other = f"{per_replica(better.plan.n_ipus_per_replica)} and micro-batch {better.plan.micro_batch}"
            bound = "" if (fastest.micro_batch, n_ipus, fastest.replicas) in self._rates else "at most "
            rate = f"{bound}{three_digits(rates[fastest])} samples/s on {counted(fastest.n_all, 'IPU')}"
            which = ", ".join(str(n) for n in sorted({c.micro_batch for c in own}))
            what = f"{per_replica(n_ipus)}, micro-batch {which}"
            self._fallen.add(Fallen(what, f"{rate}; {three_digits(better.items_per_second)} with {other}", rates[fastest]))


def _front(reports: List[CostReport]) -> List[CostReport]:
    """Those that none of the others beats in throughput, memory and number of IPUs at once; fastest first."""
    ranked = sorted(reports, key=lambda r: (-r.items_per_second, fraction(r), r.plan.n_ipus))
    kept: List[CostReport] = []
    for report in ranked:
        room = fraction(report) + _NEARLY_FRACTION
        if not any(fraction(k) <= room and k.plan.n_ipus <= report.plan.n_ipus for k in kept):
            kept.append(report)
    return kept


def _candidate(report: CostReport) -> Candidate:
    return Candidate(report.plan, report.items_per_second, report.worst_ipu.total.total, fraction(report), report.plan.n_ipus)
