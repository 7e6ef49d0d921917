"""Cutting a product over tiles: numbers by hand, and what must hold for all of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softipu.cost.product import plan_product
from softipu.hardware import BOW, GC200
from softipu.ops import Contraction

SRAM = BOW.sram_bytes_per_tile


def plan(contraction, ipu=BOW, proportion=0.6, half_partials=True, n_tiles=None):
    memory = int(proportion * ipu.sram_bytes_per_tile)
    return plan_product(contraction, ipu, half_partials=half_partials, memory_bytes=memory, n_tiles=n_tiles or ipu.n_tiles)


def matmul(rows, inner, columns, groups=1, bits=16):
    return Contraction(groups, rows, inner, columns, 1, rows, bits)


def test_ideal_cycles_keep_every_matrix_unit_busy():
    # 1024^3 multiply-accumulates, 64 a cycle on each of 1472 tiles.
    assert plan(matmul(1024, 1024, 1024)).ideal_cycles == pytest.approx(1024**3 / (64 * 1472))


def test_one_block_on_one_tile_by_hand():
    # 6 rows, one for each worker, times one block of 16 x 16 weights: 6 * 256 / 64 cycles of products, 16 * 16 * 2 / 8 of loading
    # the weights, 16 + 19 of walking the block and 50 of starting. It receives 6 * 16 * 2 bytes of input at 8 and 512 of weights at 4.
    one = plan(matmul(6, 16, 16), n_tiles=1)
    assert one.compute_cycles == 24 + 64 + 35 + 50
    assert one.exchange_cycles == 192 / 8 + 512 / 4
    assert (one.reduce_cycles, one.n_supersteps, one.n_tiles) == (0, 1, 1)
    assert one.temporary_bytes == 192 + 512 + 6 * 16 * 2


def test_float_partials_take_twice_the_cycles_of_products():
    half, single = (plan(matmul(600, 16, 16), n_tiles=1, half_partials=h) for h in (True, False))
    assert single.compute_cycles - half.compute_cycles == 600 * 256 / 64


def test_a_cut_of_the_sum_is_added_up_in_a_second_round():
    # Few results, a long sum: without a cut of the sum only a few tiles would work.
    cut = plan(matmul(16, 65536, 16))
    assert cut.n_tiles > 100 and cut.reduce_cycles > 0 and cut.n_supersteps >= 2


def test_less_memory_never_makes_it_faster_and_is_kept_to():
    c = matmul(1024, 4096, 4096)
    plans = [plan(c, proportion=p) for p in (0.6, 0.2, 0.1)]
    assert [p.cycles for p in plans] == sorted(p.cycles for p in plans)
    assert all(p.temporary_bytes <= proportion * SRAM for p, proportion in zip(plans, (0.6, 0.2, 0.1)))


def test_what_cannot_be_kept_within_the_bound_gets_the_smallest_cut():
    found = plan(matmul(4096, 4096, 4096), proportion=0.001)
    assert found.temporary_bytes < plan(matmul(4096, 4096, 4096)).temporary_bytes


def test_few_input_channels_are_filled_up_with_kernel_positions():
    # Seven by seven kernel on three channels: 147 inputs fill 10 of 16 wide blocks, 49 times 3 would fill 49.
    first_layer = Contraction(1, 112 * 112, 3, 64, 49, 224 * 224, 16)
    assert plan(first_layer).compute_cycles < plan(replace(first_layer, inner=16)).compute_cycles / 3


def test_depthwise_convolution_shares_the_unit_between_channels():
    assert plan(Contraction(256, 304, 1, 1, 15, 304, 16)).compute_cycles < plan(Contraction(256, 304, 16, 16, 15, 304, 16)).compute_cycles


sizes = st.integers(1, 3000)


@given(rows=sizes, inner=sizes, columns=sizes, groups=st.integers(1, 64))
def test_no_plan_beats_the_machine(rows, inner, columns, groups):
    c = matmul(rows, inner, columns, groups)
    found = plan(c)
    assert found.compute_cycles >= found.ideal_cycles
    assert 1 <= found.n_tiles <= BOW.n_tiles


@given(rows=sizes, inner=sizes, columns=sizes, which=st.sampled_from(["rows", "inner", "columns"]), more=st.integers(1, 500))
def test_more_work_never_takes_fewer_cycles(rows, inner, columns, which, more):
    c = matmul(rows, inner, columns)
    larger = replace(c, **{which: getattr(c, which) + more})
    if which == "rows":
        larger = replace(larger, in_positions=larger.rows)
    assert plan(larger).cycles >= plan(c).cycles


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [((785, 2967, 2813), (785, 3111, 2813)), ((7, 77, 2557), (7, 84, 2557)), ((2525, 1984, 2585), (2525, 1984, 2635))],
)
def test_a_larger_product_finds_no_cut_that_the_smaller_one_lacks(smaller, larger):
    assert plan(matmul(*smaller)).cycles <= plan(matmul(*larger)).cycles


@given(rows=sizes, inner=sizes, columns=sizes, n_tiles=st.integers(8, 736))
def test_more_tiles_never_take_more_cycles(rows, inner, columns, n_tiles):
    c = matmul(rows, inner, columns)
    assert plan(c, n_tiles=2 * n_tiles).cycles <= plan(c, n_tiles=n_tiles).cycles


def test_cycles_are_the_same_on_chips_that_differ_in_clock_only():
    assert plan(matmul(512, 768, 768), GC200) == plan(matmul(512, 768, 768), BOW)


def test_a_product_of_many_rows_is_cut_in_rounds_over_what_is_summed():
    # Attention of 40 sequences of 384 tokens and 12 heads: a cut of rows alone leaves more than 0.15 of a tile to the operands.
    few, many = (plan(matmul(384, 384, 64, groups=12 * n), proportion=0.15) for n in (20, 40))
    assert many.temporary_bytes <= 0.15 * SRAM
    assert many.cycles <= 2.3 * few.cycles
