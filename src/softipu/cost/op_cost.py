"""What one op costs an IPU: cycles of compute, exchange and synchronisation, and temporary memory."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Tuple

from softipu.cost.product import Product, plan_product
from softipu.hardware import Calibration, Ipu
from softipu.hardware.vertices import LOOPS
from softipu.ops import Work
from softipu.report.estimate import Estimate


@dataclass(frozen=True)
class Tiling:
    """How ops are cut: which tiles they may use, how much temporary memory, and which partial sums.

    Attributes:
        ipu: the chip.
        n_tiles: for compute; the others move data of the host.
        memory_proportion: bound of temporary memory as a fraction of a tile's memory.
        half_partials: partial sums of half inputs are half.
    """

    ipu: Ipu
    n_tiles: int
    memory_proportion: float
    half_partials: bool


@dataclass(frozen=True)
class OpCost:
    """Cycles of one op by phase, and bytes of a tile.

    Attributes:
        compute, exchange, sync: cycles.
        temporary_bytes: of the whole IPU, over what the op's tensors take.
    """

    compute: Estimate
    exchange: Estimate
    sync: Estimate
    temporary_bytes: float

    @property
    def cycles(self) -> float:
        return self.compute.total + self.exchange.total + self.sync.total


@lru_cache(maxsize=None)
def op_cost(work: Work, tiling: Tiling, calibration: Calibration) -> OpCost:
    """The cost of ``work``.

    What a perfect machine would take rests on the data sheet, what the cut over tiles adds on a formula, and what the fitted
    factors add on them.
    """
    ipu, products = tiling.ipu, _products(work, tiling)
    ideal = sum(p.ideal_cycles for p in products)
    cut = sum(p.compute_cycles + p.reduce_cycles for p in products)
    vector = vector_cycles(work, tiling)
    compute = Estimate(
        datasheet=ideal,
        formula=cut - ideal + vector,
        fitted=vector * (calibration.vector_slowdown.value - 1),
    )
    received = sum(p.exchange_cycles for p in products)
    received += work.moved_bytes / tiling.n_tiles / ipu.exchange_bytes_per_tile_per_cycle
    exchange = Estimate(datasheet=received)
    n_supersteps = work.n_supersteps + sum(p.n_supersteps for p in products)
    sync = Estimate(formula=n_supersteps * ipu.sync_cycles, fitted=n_supersteps * calibration.superstep_cycles.value)
    temporary = max((p.temporary_bytes for p in products), default=0.0)
    return OpCost(compute, exchange, sync, temporary * tiling.n_tiles)


def vector_cycles(work: Work, tiling: Tiling) -> float:
    """Cycles of the arithmetic outside the matrix unit on the tile with most of it."""
    return sum(
        LOOPS[kind.value].cycles(-(-elements // tiling.n_tiles), bits=work.vector_bits) for kind, elements in work.vector if elements
    )


def _products(work: Work, tiling: Tiling) -> Tuple[Product, ...]:
    memory = int(tiling.memory_proportion * tiling.ipu.sram_bytes_per_tile)
    return tuple(
        plan_product(c, tiling.ipu, half_partials=tiling.half_partials, memory_bytes=memory, n_tiles=tiling.n_tiles)
        for c in work.contractions
    )
