"""Why choices of a search fell, those with the same reason on one line."""

from typing import Dict, Iterable, List, Set, Tuple

from softipu.planner.choice import Choice, per_replica
from softipu.report.cost_report import CostReport
from softipu.report.plan_report import Fallen
from softipu.report.units import MEBIBYTES, counted, percent


class FallenChoices:
    """Collects reasons; ``lines`` gives them grouped."""

    def __init__(self) -> None:
        self._lines: List[Fallen] = []
        self._no_multiples: Dict[int, Set[int]] = {}  # items wanted -> micro-batch x replicas
        self._not_filled: Dict[Tuple[int, int], Dict[int, int]] = {}  # IPUs and least number -> micro-batch x replicas -> micro-batches
        self._splits: Dict[Tuple[int, bool, bool], List[Tuple[float, int, str]]] = {}  # IPUs, place, pipelined -> use, micro-batch, words

    def add(self, fallen: Fallen) -> None:
        """A reason of its own."""
        self._lines.append(fallen)

    def no_multiple(self, wanted: int, each: int) -> None:
        """``wanted`` items of a weight update cannot be cut into parts of ``each``."""
        self._no_multiples.setdefault(wanted, set()).add(each)

    def cannot_fill(self, n_ipus: int, each: int, n_micro_batches: int, least: int) -> None:
        """A weight update has too few micro-batches for a pipeline of ``n_ipus``."""
        self._not_filled.setdefault((n_ipus, least), {})[each] = n_micro_batches

    def no_split_fits(self, choice: Choice, report: CostReport) -> None:
        """Every split of ``choice`` that was tried overflows; ``report`` is the price of the last."""
        key = (choice.n_ipus, choice.off_chip, choice.split.pipelined)
        words = f"{tile_words(report)} on IPU {report.worst_ipu.ipu}"
        self._splits.setdefault(key, []).append((fraction(report), choice.micro_batch, words))

    def lines(self) -> Tuple[Fallen, ...]:
        """All of them."""
        found = list(self._lines)
        for wanted, parts in self._no_multiples.items():
            found.append(Fallen(f"micro-batch x replicas {_listed(parts)}", f"{wanted:,} items per update are no multiple of that"))
        for (n_ipus, least), counts in self._not_filled.items():
            most = counted(max(counts.values()), "micro-batch")
            few = f"{most} per update" if len(counts) == 1 else f"{most} per update or fewer"
            what = f"{per_replica(n_ipus)}, micro-batch x replicas {_listed(counts)}"
            found.append(Fallen(what, f"{few} cannot fill the pipeline, which needs {least}"))
        for (n_ipus, off_chip, pipelined), splits in self._splits.items():
            parts_of_name = [per_replica(n_ipus), f"micro-batch {_listed([n for _, n, _ in splits])}"]
            parts_of_name += ["optimizer state off chip"] if off_chip else []
            parts_of_name += [] if pipelined else ["one IPU at a time"]
            _, n, words = min(splits)
            at = f", with micro-batch {n}" if len(splits) > 1 else ""
            found.append(Fallen(", ".join(parts_of_name), f"the best split found needs {words}{at}"))
        return tuple(found)


def fraction(report: CostReport) -> float:
    """Use of the fullest tile of all."""
    worst = report.worst_ipu
    return worst.worst_tile_bytes / worst.tile_available_bytes


def tile_words(report: CostReport) -> str:
    """Use of the fullest tile, and what its IPU holds in all."""
    return f"{percent(fraction(report))} of a tile ({MEBIBYTES.full(report.worst_ipu.total.total)} in all)"


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(f"{n:,}" for n in sorted(set(numbers)))
