"""What must hold of any two prices that differ in one thing."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softipu.cost import Partials, Plan, Stage, price
from softipu.cost.product import plan_product
from softipu.hardware import find_system
from softipu.ops import Contraction
from softipu.report.cost_report import MemoryCategory, Phase
from softipu.report.plan import Schedule
from tests.softipu.cost.small_step import adam, workload

POD16 = find_system("bow-pod16")
LAYERS = ("layers.0", "layers.1")
WIDTHS = (4, 12, 16, 20, 32, 48, 64)
MICRO_BATCHES = (1, 2, 3, 4, 6, 8)
ROUNDING = 1 - 1e-9

TRAINING = st.builds(
    Plan,
    stages=st.tuples(st.lists(st.sampled_from(LAYERS), unique=True).map(sorted), st.booleans()).map(
        lambda given: tuple(Stage(path, ipu, given[1]) for ipu, path in enumerate(["", *given[0]]))
    ),
    micro_batch=st.just(2),
    gradient_accumulation=st.sampled_from([1, 2, 8]),
    checkpoints=st.sampled_from([(), LAYERS]),
    partials=st.sampled_from(Partials),
    available_memory_proportion=st.sampled_from([(0.6,), (0.1,)]),
    optimizer_state_off_chip=st.booleans(),
    replicated_tensor_sharding=st.booleans(),
    n_io_tiles=st.sampled_from([0, 64]),
    schedule=st.sampled_from(Schedule),
)


def priced(plan, width=16, *, training=True):
    w = workload(width, 2, plan.micro_batch, training=training)
    return price(w, adam(w) if training else None, plan, POD16)


def bytes_of(report, *categories):
    return [sum(m.by_category[c].total for c in categories) for m in report.memory]


def no_less(more, less):
    """Whether one report has at least the time and, on every IPU, the memory of another."""
    times = (more.time.cycle_seconds, less.time.cycle_seconds), (more.time.total.total, less.time.total.total)
    memory = [(a.total.total, b.total.total) for a, b in zip(more.memory, less.memory)]
    tiles = [(a.worst_tile_bytes, b.worst_tile_bytes) for a, b in zip(more.memory, less.memory)]
    return all(a >= b * ROUNDING for a, b in (*times, *memory, *tiles))


@given(TRAINING)
def test_a_split_keeps_all_work_and_all_weights(plan):
    whole, parts = priced(replace(plan, stages=plan.stages[:1])), priced(plan)
    assert parts.time.flops == whole.time.flops
    assert sum(bytes_of(parts, MemoryCategory.WEIGHTS)) == sum(bytes_of(whole, MemoryCategory.WEIGHTS))
    state = (MemoryCategory.OPTIMIZER_STATE, MemoryCategory.ACCUMULATORS)
    assert sum(bytes_of(parts, *state)) == pytest.approx(sum(bytes_of(whole, *state)))
    forward = [
        sum(e.total for s in report.stages for phase, e in s.forward.items() if phase is not Phase.IPU_LINKS) for report in (whole, parts)
    ]
    assert forward[1] == pytest.approx(forward[0])


@given(TRAINING, st.sampled_from([(1, 2), (1, 4), (2, 4)]))
def test_replicas_lower_memory_only_where_state_is_sharded(plan, replicas):
    few, many = (priced(replace(plan, replicas=n)) for n in replicas)
    if plan.replicated_tensor_sharding:
        rest = [c for c in MemoryCategory if c is not MemoryCategory.OPTIMIZER_STATE]
        if not plan.optimizer_state_off_chip:  # else what is live in an update is a share of the state
            assert all(m >= f for f, m in zip(bytes_of(few, *rest), bytes_of(many, *rest)))
            state = [sum(bytes_of(r, MemoryCategory.OPTIMIZER_STATE)) * n for r, n in zip((few, many), replicas)]
            assert state[1] == pytest.approx(state[0])
    else:
        assert all(m.total.total >= f.total.total for f, m in zip(few.memory, many.memory))
        assert all(m.worst_tile_bytes >= f.worst_tile_bytes for f, m in zip(few.memory, many.memory))


@given(TRAINING)
def test_recomputation_never_raises_the_stash_nor_the_speed(plan):
    plain, again = (priced(replace(plan, stages=tuple(replace(s, recompute=r) for s in plan.stages))) for r in (False, True))
    stashed = MemoryCategory.STASHED
    assert all(a <= p for a, p in zip(bytes_of(again, stashed), bytes_of(plain, stashed)))
    assert again.time.cycle_seconds >= plain.time.cycle_seconds * ROUNDING


@given(TRAINING, st.lists(st.sampled_from(MICRO_BATCHES), min_size=2, max_size=2, unique=True).map(sorted))
def test_more_items_in_a_micro_batch_take_no_less_time_and_memory(plan, sizes):
    few, many = (priced(replace(plan, micro_batch=n)) for n in sizes)
    assert no_less(many, few)


@given(TRAINING, st.lists(st.sampled_from(WIDTHS), min_size=2, max_size=2, unique=True).map(sorted))
def test_a_wider_model_takes_no_less_time_and_memory(plan, widths):
    narrow, wide = (priced(plan, width) for width in widths)
    assert no_less(wide, narrow)


@given(st.lists(st.sampled_from(WIDTHS), min_size=2, max_size=2, unique=True).map(sorted), st.sampled_from([1, 4]))
def test_a_wider_model_infers_no_faster_and_in_no_less_memory(widths, micro_batch):
    plan = Plan(micro_batch=micro_batch, device_iterations=8)
    narrow, wide = (priced(plan, width, training=False) for width in widths)
    assert no_less(wide, narrow)


SIZES = st.integers(1, 600)
PRODUCTS = st.builds(
    Contraction,
    groups=st.sampled_from([1, 2, 12, 48]),
    rows=SIZES,
    inner=st.one_of(st.integers(1, 16), SIZES),
    columns=st.one_of(st.integers(1, 16), SIZES),
    bits=st.sampled_from([16, 32]),
)


def cycles(contraction, *, half_partials):
    ipu = POD16.ipu
    memory = int(0.6 * ipu.sram_bytes_per_tile)
    contraction = replace(contraction, in_positions=contraction.rows)
    return plan_product(contraction, ipu, half_partials=half_partials, memory_bytes=memory, n_tiles=ipu.n_tiles).cycles


@settings(max_examples=60)
@given(PRODUCTS, st.sampled_from(["groups", "rows", "inner", "columns"]), st.integers(1, 40), st.booleans())
def test_a_larger_product_takes_no_fewer_cycles(product, dimension, more, half_partials):
    larger = replace(product, **{dimension: getattr(product, dimension) + more})
    assert cycles(larger, half_partials=half_partials) >= cycles(product, half_partials=half_partials) * ROUNDING


def test_thin_groups_share_a_matrix_unit_only_where_that_is_faster():
    # 12 groups of 769 positions find tiles of their own; the same product, thicker, must not be faster for sharing less.
    thin, thick = (Contraction(12, 769, inner, 2, bits=32) for inner in (1, 2))
    assert cycles(thin, half_partials=False) <= cycles(thick, half_partials=False)


def test_weights_of_equal_size_by_chance_need_an_update_each():
    # At width 16 the embedding of 64 x 16 and the layers' 4 * 16 x 16 have as many elements; no memory is saved by that.
    code = [sum(bytes_of(priced(Plan(micro_batch=2), width), MemoryCategory.CODE)) for width in (12, 16, 20)]
    assert code[0] == code[1] == code[2]
