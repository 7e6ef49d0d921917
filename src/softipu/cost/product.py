"""How a matrix product or convolution is cut over the tiles of an IPU, and what each tile then does.

A product out[rows, columns] = sum over inner and taps is cut in rows, columns and inner; a cut of inner leaves partial sums that are
added in a second round. The cut with the fewest cycles whose temporary memory stays within its bound is taken, as PopLibs plans; where
none stays within it, or where that is faster, columns are done in several rounds, one after the other, or inner is, whose partial sums are
then added up from round to round (serial splits of output and input channels in PopLibs).

Formulas and constants follow the estimators of graphcore/poplibs (lib/poplin/PerformanceEstimation.hpp, ConvModel.cpp,
ExchangeEstimator.hpp), whose tile cycles these are.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Callable, Iterator, Tuple

from softipu.hardware import Ipu
from softipu.ops import Contraction

# The fields of a Product but the first. A plan tries some hundred thousand cuts, and making objects of them would take most of its time.
_Cut = Tuple[float, float, float, int, int, float]

# Cycles besides the products themselves, per block of weights: of its loading loop and of walking input and output groups.
_BLOCK_OVERHEAD_CYCLES = 16 + 19
_VERTEX_CYCLES = 50  # of starting the vertex that walks them
_WEIGHT_LOAD_BYTES_PER_CYCLE = 8
_USUAL_ROUNDS, _MAX_ROUNDS = 8, 64


@dataclass(frozen=True)
class Product:
    """What the busiest tile does for a product.

    Attributes:
        ideal_cycles: with every matrix unit of the chip busy in every cycle.
        compute_cycles: of the matrix unit as it is cut, loading of weights and padding included.
        reduce_cycles: of adding partial sums.
        exchange_cycles: of receiving operands and partial sums at the data-sheet rate.
        n_supersteps: rounds of exchange and compute.
        n_tiles: that have work.
        temporary_bytes: of the tile: copies of operands, and partial sums.
    """

    ideal_cycles: float
    compute_cycles: float
    reduce_cycles: float
    exchange_cycles: float
    n_supersteps: int
    n_tiles: int
    temporary_bytes: float

    @property
    def cycles(self) -> float:
        return self.compute_cycles + self.reduce_cycles + self.exchange_cycles


@lru_cache(maxsize=None)
def plan_product(contraction: Contraction, ipu: Ipu, *, half_partials: bool, memory_bytes: int, n_tiles: int) -> Product:
    """The cheapest cut of ``contraction``.

    Args:
        half_partials: partial sums of half inputs are half.
        memory_bytes: bound of the temporary memory of a tile.
        n_tiles: tiles that may be used.

    Returns:
        The best cut within the bound; if none is, the one that needs least memory.
    """
    smallest = best = None
    fewest_bytes = fewest_cycles = math.inf
    n_rounds = 1
    while n_rounds <= _MAX_ROUNDS and (best is None or n_rounds <= _USUAL_ROUNDS):
        ways = ((n_rounds, 1),) if n_rounds == 1 else ((n_rounds, 1), (1, n_rounds))
        forms = _forms(contraction, ipu)
        for candidate in (cut for form in forms for way in ways for cut in _cuts(form, ipu, half_partials, n_tiles, way)):
            compute, reduce, exchange, _, _, n_bytes = candidate
            if n_bytes < fewest_bytes:
                smallest, fewest_bytes = candidate, n_bytes
            if n_bytes <= memory_bytes and compute + reduce + exchange < fewest_cycles:
                best, fewest_cycles = candidate, compute + reduce + exchange
        n_rounds *= 2
    found = best or smallest
    assert found is not None
    macs = _macs_per_cycle(contraction, ipu, half_partials=half_partials)
    return Product(contraction.macs / (macs * ipu.n_tiles), *found)


def _forms(c: Contraction, ipu: Ipu) -> Iterator[Contraction]:
    """The product as it is, and with kernel positions as further input channels where there are too few to fill the matrix unit."""
    yield c
    unit_in, _ = _units(c, ipu)
    if c.taps > 1 and c.groups == 1 and c.inner < unit_in:
        yield replace(c, inner=c.inner * c.taps, taps=1, in_positions=c.rows)


def _cuts(c: Contraction, ipu: Ipu, half_partials: bool, n_tiles: int, rounds: Tuple[int, int]) -> Iterator[_Cut]:
    """Cuts with so many rounds over (columns, inner), of which one is 1."""
    column_rounds, inner_rounds = rounds
    unit_in, _ = _units(c, ipu)
    work_of = _tile_work(c, ipu, half_partials, rounds)
    for groups, inner, columns in _packings(c, ipu):
        inner, columns = -(-inner // inner_rounds), -(-columns // column_rounds)
        columns_tiles = list(_sizes(columns, ipu.amp_output_channels))
        inner_tiles = list(_sizes(inner, unit_in))
        for group_parts in dict.fromkeys((min(groups, n_tiles), -(-min(groups, n_tiles) // 2))):
            for columns_tile in columns_tiles:
                column_parts = -(-columns // columns_tile)
                for inner_tile in inner_tiles:
                    inner_parts = -(-inner // inner_tile)
                    left = n_tiles // (group_parts * column_parts * inner_parts)
                    if left:
                        yield work_of(groups, inner_tile, columns_tile, (group_parts, min(c.rows, left), column_parts, inner_parts))


def _sizes(total: int, unit: int) -> Iterator[int]:
    """Sizes of a tile's part: whole units in steps of about a quarter, or everything.

    The steps are the same for all totals, and no size is evened out over the parts: what a larger product may be cut into, a smaller
    one may be, so that it never takes longer.
    """
    units, size = -(-total // unit), 1
    while size < units:
        yield size * unit
        size = max(size + 1, size + size // 4)
    yield total


def _units(c: Contraction, ipu: Ipu) -> Tuple[int, int]:
    return (ipu.amp_input_channels_half if c.bits == 16 else ipu.amp_input_channels_float), ipu.amp_output_channels


def _packings(c: Contraction, ipu: Ipu) -> Iterator[Tuple[int, int, int]]:
    """(groups, inner, columns) with groups too thin for the matrix unit sharing one, off-diagonal blocks being zero.

    Every number of groups that a matrix unit holds is tried, one included: where there are tiles enough, sharing only adds weights to
    load, and if the most had to share, a thinner product could take longer than a thicker one.
    """
    unit_in, unit_out = _units(c, ipu)
    most = max(1, min(c.groups, unit_in // max(1, c.inner), unit_out // max(1, c.columns)))
    for packed in range(1, most + 1):
        yield -(-c.groups // packed), c.inner * packed, c.columns * packed


def _macs_per_cycle(c: Contraction, ipu: Ipu, *, half_partials: bool) -> int:
    if c.bits == 32:
        return ipu.amp_macs_per_tile_per_cycle_float
    return ipu.amp_macs_per_tile_per_cycle_half if half_partials else ipu.amp_macs_per_tile_per_cycle_half_float


def _tile_work(
    c: Contraction, ipu: Ipu, half_partials: bool, rounds: Tuple[int, int]
) -> Callable[[int, int, int, Tuple[int, int, int, int]], _Cut]:
    """What the busiest tile does, as a function of (groups, inner of a tile, columns of a tile, parts of groups, rows, columns, inner)."""
    unit_in, unit_out = _units(c, ipu)
    width = c.bits // 8
    partial_width = 2 if c.bits == 16 and half_partials else 4
    column_rounds, inner_rounds = rounds
    n_rounds = column_rounds * inner_rounds
    workers, taps, rows = ipu.n_workers_per_tile, c.taps, c.rows
    block_products = workers * unit_in * unit_out / _macs_per_cycle(c, ipu, half_partials=half_partials)
    block_overhead = unit_in * unit_out * width / _WEIGHT_LOAD_BYTES_PER_CYCLE + _BLOCK_OVERHEAD_CYCLES
    in_positions_per_row = c.in_positions / rows if c.in_positions else 1.0
    edges = math.sqrt(taps) - 1
    rate = ipu.exchange_bytes_per_tile_per_cycle
    # Neighbouring tiles differ in columns, so that two of them receive the same input, over one bus at twice the rate.
    in_rate = 2 * rate
    vector_rate = ipu.vector_bytes_per_cycle

    def work_of(groups: int, inner_tile: int, columns_tile: int, parts: Tuple[int, int, int, int]) -> _Cut:
        group_parts, row_parts, column_parts, inner_parts = parts
        groups_tile, rows_tile = -(-groups // group_parts), -(-rows // row_parts)
        blocks = groups_tile * taps * -(-inner_tile // unit_in) * -(-columns_tile // unit_out)
        compute = _VERTEX_CYCLES + blocks * (-(-rows_tile // workers) * block_products + block_overhead)
        positions = rows_tile * in_positions_per_row
        if taps > 1:  # neighbouring tiles need each other's edges
            positions = (math.sqrt(positions) + edges) ** 2
        in_bytes = groups_tile * positions * inner_tile * width
        weight_bytes = groups_tile * taps * inner_tile * columns_tile * width
        out_bytes = groups_tile * rows_tile * columns_tile * partial_width
        exchange = in_bytes / in_rate + weight_bytes / rate
        n_tiles = group_parts * row_parts * column_parts * inner_parts
        n_bytes = in_bytes + weight_bytes + out_bytes
        reduce = 0.0
        if inner_rounds > 1:  # what a round gives is added to the sum of those before
            n_bytes += out_bytes
            reduce = (n_rounds - 1) * out_bytes / vector_rate
        if inner_parts == 1:
            return n_rounds * compute, reduce, n_rounds * exchange, n_rounds, n_tiles, n_bytes
        exchange += out_bytes * (inner_parts - 1) / inner_parts / rate
        reduce += n_rounds * out_bytes / vector_rate
        return n_rounds * compute, reduce, n_rounds * exchange, 2 * n_rounds, n_tiles, n_bytes

    return work_of
