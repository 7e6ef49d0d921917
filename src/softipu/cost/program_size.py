"""Memory of the program itself: code, vertex state, exchange sequences, stack.

Nothing published says how large these are for a real model; the figures are assumptions, chosen round. The same op of repeated layers
shares its code, as the compiler outlines repeated parts. Ops of different modules do not, though their sizes may be equal by chance: a
larger model would then have less code.
"""

import re
from functools import lru_cache
from typing import Dict, Iterable, List, Tuple

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
    different: Dict[Program, Work] = {}
    for stage in stages:
        numbers = [i for segment in stage.segments for i in (*segment.forward, *segment.backward)]
        different.update(zip(programs_of(workload, numbers), (workload.ops[i].work for i in numbers)))
    works = different.values()
    return sum(map(work_bytes, works)) + n_updates * UPDATE_BYTES + len({work.family for work in works}) * FAMILY_BYTES


Program = Tuple[str, str, int, int]
"""What tells the code of one op from that of another: module without numbers, op, which call of it in the module, identity of the work."""

FAMILY_BYTES = float(ASSUMED.code_bytes_per_family)  # of a tile, once for each op family
UPDATE_BYTES = float(4 * ASSUMED.code_bytes_per_superstep)  # for each different weight update


def work_bytes(work: Work) -> float:
    """Code of one op on a tile. Rounds beyond a few are a loop around the same code: steps of a recurrence, rounds of a sorting network."""
    rounds = min(_LOOPED, work.n_supersteps) + min(_LOOPED, 2 * len(work.contractions))
    return float(ASSUMED.code_bytes_per_superstep * rounds)


def programs_of(workload: Workload, numbers: Iterable[int]) -> List[Program]:
    """The program of each op; ops with the same one share code. Equal works of a workload are one object."""
    seen: Dict[Tuple[str, str], int] = {}  # how often a module has called an op so far
    found = []
    for i in numbers:
        op = workload.ops[i]
        nth = seen[op.origin.module, op.name] = seen.get((op.origin.module, op.name), 0) + 1
        found.append((_without_numbers(op.origin.module), op.name, nth, id(op.work)))
    return found


def update_program(parameter: Parameter) -> Tuple[str, int]:
    """Equal for weights whose updates share code: those of the same weights of repeated layers do."""
    return _without_numbers(parameter.name), parameter.elements


def different_updates(parameters: Iterable[Parameter]) -> int:
    """Weight updates that share no code."""
    return len(set(map(update_program, parameters)))


@lru_cache(maxsize=None)
def _without_numbers(path: str) -> str:
    """ "layers.3.up" and "layers.4.up" are the same module of a repeated layer."""
    return re.sub(r"\d+", "#", path)
