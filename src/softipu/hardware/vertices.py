"""What vector arithmetic costs a tile: cycles of the inner loops that PopLibs itself plans with.

A figure is (cycles, elements) of one turn of the loop, in half and in float, counted in instructions of a worker; six workers take
turns, so it is also the tile's cycles for that many elements when all six have work.
"""

from dataclasses import dataclass
from typing import Dict, Tuple

_CYCLES = "graphcore/poplibs popopsCycleEstimators.cpp and .hpp"
_ASSUMED = "assumed: no published figure"

Loop = Tuple[float, int]


@dataclass(frozen=True)
class Loops:
    """One kind of arithmetic: cycles of a turn and the elements that it handles.

    Attributes:
        half, float_: (cycles, elements).
        source: where the figures stand.
    """

    half: Loop
    float_: Loop
    source: str

    def cycles(self, elements: float, *, bits: int) -> float:
        """Cycles of a tile with ``elements`` of them."""
        cycles, per_turn = self.half if bits == 16 else self.float_
        return elements * cycles / per_turn


# Names are those of softipu.ops.VectorOp.
LOOPS: Dict[str, Loops] = {
    "add": Loops((3, 4), (3, 2), _CYCLES + ": binary add, 1 + 2 cycles a 64-bit vector"),
    "scale": Loops((2, 4), (2, 2), _CYCLES + ": square, negate"),
    "compare": Loops((4, 4), (3, 2), _CYCLES + ": maximum"),
    "divide": Loops((21, 4), (10, 2), _CYCLES + ": divide"),
    "inverse": Loops((15, 4), (6, 2), _CYCLES + ": inverse"),
    "sqrt": Loops((23, 4), (10, 2), _CYCLES + ": sqrt"),
    "rsqrt": Loops((19, 4), (8, 2), _CYCLES + ": rsqrt"),
    "exp": Loops((4, 4), (6, 2), _CYCLES + ": exp"),
    "log": Loops((4, 4), (12, 2), _CYCLES + ": log"),
    "tanh": Loops((4, 4), (12, 2), _CYCLES + ": tanh"),
    "sigmoid": Loops((6, 4), (12, 2), _CYCLES + ": sigmoid"),
    "relu": Loops((3, 4), (3, 2), _CYCLES + ": relu"),
    "erf": Loops((16, 1), (22, 1), _CYCLES + ": gelu by erf"),
    "trigonometry": Loops((22, 1), (22, 1), _ASSUMED + "; as gelu by erf"),
    "power": Loops((22, 1), (22, 1), _ASSUMED + "; as gelu by erf"),
    "reduce": Loops((1, 4), (1, 2), "graphcore/poplibs lib/popops/reduction/ReductionPlan.cpp: one cycle a vector"),
    "copy": Loops((1, 4), (1, 2), "graphcore/poplibs ConvModel.cpp: memory copy of 8 B a cycle"),
    "random": Loops((5, 4), (5, 2), _ASSUMED + "; as an op that is not written by hand, 5 cycles a vector"),
}
