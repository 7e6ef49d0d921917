"""The planner's sums are the cost model's where they are sums."""

import itertools

import pytest

from softipu.cost import Plan, Stage, price
from softipu.hardware import CALIBRATION, find_system
from softipu.planner.stage_costs import Setting, StageCosts, tied_tail
from softipu.planner.units import units_of
from softipu.report.cost_report import MemoryCategory, Phase
from tests.softipu.cost.small_step import adam, workload

POD = find_system("bow-pod16")
PLAN = Plan(micro_batch=2, gradient_accumulation=16)


@pytest.fixture(scope="module")
def costs():
    w = workload()
    return StageCosts(w, units_of(w), adam(w), PLAN, POD, CALIBRATION)


def ranges(costs):
    return list(itertools.combinations(range(len(costs.units) + 1), 2))


def test_the_time_of_stages_is_the_cost_models(costs):
    whole = price(workload(), adam(workload()), PLAN, POD)
    assert costs.seconds(0, len(costs.units), recompute=False) == pytest.approx(whole.stages[0].seconds)
    at = costs.units.paths.index("layers.2")
    plan = Plan((Stage("", 0), Stage("layers.2", 1)), micro_batch=2, gradient_accumulation=16)
    for stage, (begin, end) in zip(price(workload(), adam(workload()), plan, POD).stages, ((0, at), (at, len(costs.units)))):
        links = sum(part[Phase.IPU_LINKS].total for part in (stage.forward, stage.backward))
        assert costs.seconds(begin, end, recompute=False) == pytest.approx(stage.seconds - links)
        assert costs.link_seconds(begin, end, 2) == pytest.approx(links)


def test_what_a_stage_always_holds_is_the_cost_models(costs):
    at = costs.units.paths.index("layers.2")
    plan = Plan((Stage("", 0), Stage("layers.2", 1)), micro_batch=2, gradient_accumulation=16)
    held = (
        MemoryCategory.WEIGHTS, MemoryCategory.OPTIMIZER_STATE, MemoryCategory.ACCUMULATORS, MemoryCategory.CODE, MemoryCategory.STACK,
    )  # fmt: skip
    for memory, (begin, end) in zip(price(workload(), adam(workload()), plan, POD).memory, ((0, at), (at, len(costs.units)))):
        expected = sum(memory.by_category[category].total for category in held)
        assert costs.state(begin, end, state_share=1.0, accumulates=True) == pytest.approx(expected)


def test_no_work_is_lost_between_stages(costs):
    n = len(costs.units)
    for cut in range(1, n):
        parts = [costs.seconds(0, cut, recompute=r) + costs.seconds(cut, n, recompute=r) for r in (False, True)]
        assert parts == pytest.approx([costs.seconds(0, n, recompute=r) for r in (False, True)])


def test_recomputation_takes_time_and_never_holds_more(costs):
    setting = Setting()
    for begin, end in ranges(costs):
        plain, *again = costs.needs(begin, end, 0, 4, setting)
        assert all(n.recompute and n.seconds >= plain.seconds and n.held <= plain.held for n in again)


def test_earlier_stages_of_a_pipeline_hold_more(costs):
    held = [costs.needs(1, 3, stage, 4, Setting())[0].held for stage in range(4)]
    assert held == sorted(held, reverse=True) and held[0] > held[-1]


def test_state_grows_with_units_its_share_and_accumulation(costs):
    for begin, end in ranges(costs):
        off, shared, own = (costs.state(begin, end, state_share=s, accumulates=True) for s in (0.0, 0.5, 1.0))
        assert off <= shared <= own and shared - off == pytest.approx(own - shared)
        assert costs.state(begin, end, state_share=1.0, accumulates=False) <= own
        if end < len(costs.units):
            assert costs.state(begin, end + 1, state_share=1.0, accumulates=True) >= own


@pytest.mark.parametrize(("shared", "tail"), [([], None), ([(0, 9)], 9), ([(0, 8), (1, 7)], 7), ([(4, 9)], None), ([(0, 3)], None)])
def test_a_tail_reads_weights_of_the_first_units(shared, tail):
    assert tied_tail(shared, 10) == tail
