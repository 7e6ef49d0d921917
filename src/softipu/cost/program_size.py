"""Memory of the program itself: code, vertex state, exchange sequences, stack.

Nothing published says how large these are for a real model; the figures are assumptions, chosen round. The same op of repeated layers
shares its code, as the compiler outlines repeated parts. Ops of different modules do not, though their sizes may be equal by chance: a
larger model would then have less code.
"""

import re
from functools import lru_cache
from typing import Dict, Iterable, Set, Tuple

from softipu.cost.stages import StageOps
from softipu.cost.workload import Parameter, Workload
from softipu.hardware.calibration import ASSUMED
from softipu.ops import Work

_LOOPED = 8


def code_bytes_per_tile(workload: Workload, stages: Iterable[StageOps], *, n_updates: int) -> float:
    """Code, vertex state and exchange sequences of a tile.

    Args:
        stages: those of one IPU.
        n_updates: different weight updates here.
    """
    different: Set[Tuple[str, str, int, Work]] = set()
    for stage in stages:
        seen: Dict[Tuple[str, str], int] = {}  # how often a module has called an op so far
        for segment in stage.segments:
            for i in (*segment.forward, *segment.backward):
                op = workload.ops[i]
                nth = seen[op.origin.module, op.name] = seen.get((op.origin.module, op.name), 0) + 1
                different.add((_without_numbers(op.origin.module), op.name, nth, op.work))
    works = [work for *_, work in different]
    # Rounds beyond a few are a loop around the same code: time steps of a recurrence, rounds of a sorting network.
    rounds = sum(min(_LOOPED, work.n_supersteps) + min(_LOOPED, 2 * len(work.contractions)) for work in works) + 4 * n_updates
    families = {work.family for work in works}
    return ASSUMED.code_bytes_per_family * len(families) + ASSUMED.code_bytes_per_superstep * rounds


def different_updates(parameters: Iterable[Parameter]) -> int:
    """Weight updates that share no code: those of the same weights of repeated layers do."""
    return len({(_without_numbers(p.name), p.elements) for p in parameters})


@lru_cache(maxsize=None)
def _without_numbers(path: str) -> str:
    """ "layers.3.up" and "layers.4.up" are the same module of a repeated layer."""
    return re.sub(r"\d+", "#", path)
