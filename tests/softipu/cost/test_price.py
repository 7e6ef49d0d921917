"""What must hold for the price of any plan."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softipu.cost import Partials, Plan, Stage, price
from softipu.cost.price import Pricing
from softipu.errors import Error
from softipu.hardware import CALIBRATION, find_system
from softipu.report.cost_report import MemoryCategory, Phase
from tests.softipu.cost.small_step import adam, workload

POD4, POD16 = find_system("bow-pod4"), find_system("bow-pod16")
LAYERS = tuple(f"layers.{i}" for i in range(4))
cuts = st.lists(st.sampled_from(LAYERS), unique=True, max_size=3).map(sorted)


def plan_at(begins, *, recompute=False, **given_values):
    stages = (Stage("", 0, recompute), *(Stage(path, ipu, recompute) for ipu, path in enumerate(begins, 1)))
    values = {"micro_batch": 2, "gradient_accumulation": 16, "partials": Partials.HALF, **given_values}
    return Plan(stages, checkpoints=LAYERS if recompute else (), **values)


def priced(plan, w=None, system=POD16):
    w = w or workload()
    return price(w, adam(w) if w.training else None, plan, system)


def category(report, which):
    return [m.by_category[which].total for m in report.memory]


@given(cuts)
def test_splitting_keeps_total_work(begins):
    whole, parts = priced(plan_at([])), priced(plan_at(begins))
    assert parts.time.flops == whole.time.flops

    def on_tiles(report):
        phases = [e.total for s in report.stages for p in (s.forward, s.backward) for k, e in p.items() if k is not Phase.IPU_LINKS]
        return sum(phases)

    assert on_tiles(parts) == pytest.approx(on_tiles(whole))
    assert sum(m.n_ops for m in parts.modules) == sum(m.n_ops for m in whole.modules)
    assert sum(category(parts, MemoryCategory.WEIGHTS)) == sum(category(whole, MemoryCategory.WEIGHTS))


@given(cuts, st.sampled_from([1, 2, 4]))
def test_more_replicas_never_lower_memory_per_ipu(begins, replicas):
    few, many = (
        priced(plan_at(begins, replicas=r)) for r in (replicas, 2 * replicas if (len(begins) + 1) * 2 * replicas <= 16 else replicas)
    )
    assert all(m.total.total >= f.total.total for f, m in zip(few.memory, many.memory))


@given(cuts)
def test_recomputation_never_raises_the_stash(begins):
    plain, again = (priced(plan_at(begins, recompute=r)) for r in (False, True))
    assert all(a <= p for a, p in zip(category(again, MemoryCategory.STASHED), category(plain, MemoryCategory.STASHED)))


@given(cuts)
def test_recomputation_never_makes_a_stage_faster(begins):
    plain, again = (priced(plan_at(begins, recompute=r)) for r in (False, True))
    assert all(a.seconds >= p.seconds for a, p in zip(again.stages, plain.stages))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("few", "many"), [(1, 2), (2, 4), (4, 8)])
def test_a_larger_batch_takes_longer_and_more_memory(training, few, many):
    reports = [priced(plan_at([], micro_batch=n), workload(micro_batch=n, training=training)) for n in (few, many)]
    assert reports[1].time.cycle_seconds >= reports[0].time.cycle_seconds
    assert reports[1].memory[0].worst_tile_bytes >= reports[0].memory[0].worst_tile_bytes
    assert reports[1].items_per_second >= reports[0].items_per_second


@pytest.mark.parametrize(("narrow", "wide"), [(16, 32), (32, 64), (64, 128)])
def test_a_wider_model_takes_longer_and_more_memory(narrow, wide):
    reports = [priced(plan_at([]), workload(width=n)) for n in (narrow, wide)]
    assert reports[1].time.cycle_seconds > reports[0].time.cycle_seconds
    assert reports[1].memory[0].total.total > reports[0].memory[0].total.total


def test_phases_sum_to_the_time_of_the_step():
    report = priced(plan_at(["layers.2"]))
    items = report.plan.items_per_update
    assert items / report.items_per_second == pytest.approx(report.time.total.total)
    steady = report.plan.gradient_accumulation * report.time.cycle_seconds
    after = sum(report.time.by_phase[p].total for p in (Phase.UPDATE, Phase.ALL_REDUCE, Phase.STREAMING))
    bubble = report.time.by_phase[Phase.BUBBLE].total
    assert report.time.total.total == pytest.approx(steady + bubble + after + CALIBRATION.call_seconds.value)


def test_every_estimate_says_what_it_rests_on():
    shares = priced(plan_at(["layers.2"])).time.total.shares()
    assert set(shares) == {"datasheet", "formula", "fitted", "assumed"}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["datasheet"] > 0 and shares["fitted"] > 0


def test_stash_is_deeper_in_earlier_stages():
    w = workload()
    report = priced(plan_at(["layers.1", "layers.2", "layers.3"], recompute=True))
    stash = category(report, MemoryCategory.STASHED)
    layer = 2 * 16 * 32 * 2  # what enters a layer: micro-batch, tokens, width, half
    assert stash[1:] == [5 * layer, 3 * layer, 0.0]
    assert w.training


def test_sharded_state_falls_with_the_replicas():
    one, four = (
        sum(category(priced(plan_at([], replicas=4, replicated_tensor_sharding=sharded)), MemoryCategory.OPTIMIZER_STATE))
        for sharded in (False, True)
    )
    assert four == pytest.approx(one / 4)


def test_state_off_chip_costs_time_instead_of_memory():
    on, off = (priced(plan_at([], optimizer_state_off_chip=o)) for o in (False, True))
    assert sum(category(off, MemoryCategory.OPTIMIZER_STATE)) == 0 < sum(category(on, MemoryCategory.OPTIMIZER_STATE))
    assert off.time.by_phase[Phase.STREAMING].assumed > 0 == on.time.by_phase[Phase.STREAMING].total


def test_accumulators_exist_only_with_accumulation():
    w = workload()
    elements = sum(p.elements for p in w.parameters)
    assert sum(category(priced(plan_at([])), MemoryCategory.ACCUMULATORS)) == 2 * elements
    assert sum(category(priced(plan_at([], gradient_accumulation=1)), MemoryCategory.ACCUMULATORS)) == 0


def test_inference_keeps_no_state():
    report = priced(plan_at(["layers.2"], gradient_accumulation=1, device_iterations=8), workload(training=False))
    for which in (MemoryCategory.OPTIMIZER_STATE, MemoryCategory.ACCUMULATORS, MemoryCategory.STASHED):
        assert sum(category(report, which)) == 0
    assert report.time.by_phase[Phase.UPDATE].total == 0


def test_the_fullest_tile_decides():
    report = priced(plan_at([]))
    (memory,) = report.memory
    assert report.fits and memory.fits
    assert memory.worst_tile_bytes >= memory.total.total / memory.n_tiles * 0.99
    assert sum(band.n_tiles for band in memory.tiles) == memory.n_tiles
    assert len(memory.liveness) <= 256


def test_report_is_json():
    data = json.loads(json.dumps(priced(plan_at(["layers.2"])).as_dict()))
    assert data["schema"] == 1 and data["fits"] is True and Plan.from_dict(data["plan"]) == plan_at(["layers.2"])


def test_too_small_a_system_is_an_error():
    with pytest.raises(Error, match="takes 2 IPUs x 4 replicas = 8, but bow-pod4 has 4"):
        priced(plan_at(["layers.2"], replicas=4), system=POD4)


def test_training_needs_an_optimizer():
    with pytest.raises(Error, match="A training step is priced with its optimizer"):
        price(workload(), None, plan_at([]), POD4)


def test_plans_priced_together_cost_what_each_costs_alone():
    # They share what does not depend on repetitions, replicas and the place of the optimizer's state.
    together = Pricing(workload(), adam(workload()), POD16)
    for changes in (
        {},
        {"gradient_accumulation": 1},
        {"gradient_accumulation": 64},
        {"replicas": 4},
        {"optimizer_state_off_chip": True},
        {"replicas": 2, "replicated_tensor_sharding": True},
        {"device_iterations": 8},
        {"available_memory_proportion": (0.1,)},
    ):
        plan = plan_at(["layers.2"], recompute=True, **changes)
        assert together.of(plan) == priced(plan)
