"""Memory of the program itself: code, vertex state, exchange sequences, stack.

Nothing published says how large these are for a real model; the figures are assumptions, chosen round. Ops that do the same work share
their code, as the compiler outlines repeated parts.
"""

from typing import Iterable, Set

from softipu.cost.stages import StageOps
from softipu.cost.workload import Workload
from softipu.hardware.calibration import ASSUMED
from softipu.ops import Work

_LOOPED = 8


def code_bytes_per_tile(workload: Workload, stages: Iterable[StageOps], *, n_updates: int) -> float:
    """Code, vertex state and exchange sequences of a tile.

    Args:
        stages: those of one IPU.
        n_updates: weight tensors of different size that are updated here.
    """
    works: Set[Work] = set()
    for stage in stages:
        for segment in stage.segments:
            for i in (*segment.forward, *segment.backward):
                works.add(workload.ops[i].work)
    # Rounds beyond a few are a loop around the same code: time steps of a recurrence, rounds of a sorting network.
    rounds = sum(min(_LOOPED, work.n_supersteps) + min(_LOOPED, 2 * len(work.contractions)) for work in works) + 4 * n_updates
    families = {work.family for work in works}
    return ASSUMED.code_bytes_per_family * len(families) + ASSUMED.code_bytes_per_superstep * rounds
