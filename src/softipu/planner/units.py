"""The units that stages are made of: the ops between two places where a model may be cut."""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import AbstractSet, Dict, List, Sequence, Tuple

from softipu.cost.workload import Workload
from softipu.graph.origin import Origin
from softipu.planner.cuts import Cut, cut_points, repeated_modules

MOST_UNITS = 256
# Within a layer only places are kept where little more is sent than between layers: others make a stage wait for more, and never
# balance better than a neighbour by more than an op.
_SENT_AT_MOST = 1.5


@dataclass(frozen=True)
class Units:
    """A model as a row of units.

    Attributes:
        paths: of the module at which each unit begins; "" for the first.
        first_runs: number of the run at which each begins.
        layers: repeated modules, in order; their outputs are the checkpoints of recomputation.
        layer_ends: the last unit of each layer, where a segment of recomputation ends.
    """

    paths: Tuple[str, ...]
    first_runs: Tuple[int, ...]
    layers: Tuple[str, ...]
    layer_ends: Tuple[int, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def layers_in(self, begin: int, end: int) -> Tuple[str, ...]:
        """Layers that are complete within units ``begin`` to ``end``."""
        return tuple(path for path, last in zip(self.layers, self.layer_ends) if begin <= last < end)

    def of_run(self, run: int) -> int:
        """The unit that a run belongs to."""
        return bisect_right(self.first_runs, run) - 1


def units_of(workload: Workload, containers: AbstractSet[str] = frozenset()) -> Units:
    """The units of a workload; no stage begins at ``containers``, modules that are never called."""
    forward = [op.origin for op in workload.ops if not op.origin.backward]
    layers = repeated_modules(forward)
    cuts = _with_products(_fewer(cut_points(forward, containers), forward, layers, _sent(workload)), workload)
    first_runs = tuple(forward[cut.first].run if cut.first else 0 for cut in cuts)
    ends = []
    for path in layers:
        last = max(origin.run for origin in forward if origin.inside(path))
        ends.append(bisect_right(first_runs, last) - 1)
    return Units(tuple(cut.path for cut in cuts), first_runs, layers, tuple(ends))


def _sent(workload: Workload) -> List[float]:
    """Bytes that would be sent if the model were cut before each forward op."""
    forward = [op for op in workload.ops if not op.origin.backward]
    made: Dict[int, int] = {}
    read: Dict[int, int] = {}
    for i, op in enumerate(forward):
        for b in op.reads:
            read[b] = i
        for b in op.writes:
            made.setdefault(b, i)
    changes = [0.0] * (len(forward) + 2)
    for b, first in made.items():
        last = read.get(b, first)
        changes[first + 1] += workload.buffers[b].bytes
        changes[last + 1] -= workload.buffers[b].bytes
    return list(accumulate(changes))


def _fewer(cuts: Sequence[Cut], forward: Sequence[Origin], layers: Tuple[str, ...], sent: List[float]) -> List[Cut]:
    """All cuts outside layers, and within each layer those where about as little is sent as at the best of its places."""
    names = set(layers)
    groups: Dict[str, List[Cut]] = {}
    for cut in cuts[1:]:
        groups.setdefault(_layer(forward[cut.first].module, names), []).append(cut)
    kept = [cuts[0], *groups.pop("", [])]
    between = []
    for group in groups.values():
        least = min(sent[cut.first] for cut in group)
        kept += [cut for cut in group if sent[cut.first] <= _SENT_AT_MOST * least]
        between += [group[0]]
    if len(kept) > MOST_UNITS:
        outside = [cut for cut in kept if not _layer(forward[cut.first].module, names)]
        kept = [cuts[0], *(cut for cut in outside if cut.first), *between][: 4 * MOST_UNITS]
    return sorted(kept, key=lambda cut: cut.first)


def _with_products(cuts: Sequence[Cut], workload: Workload) -> List[Cut]:
    """Cuts before units that have a product to compute; others take no time to speak of and stay with the unit in front."""
    products = [bool(op.work.contractions) for op in workload.ops if not op.origin.backward]
    ends = [*(cut.first for cut in cuts[1:]), len(products)]
    return [cut for cut, end in zip(cuts, ends) if not cut.first or any(products[cut.first : end])]


def _layer(module: str, layers: "set[str]") -> str:
    while module and module not in layers:
        module = module.rpartition(".")[0]
    return module
