"""What is advised helps, in the order in which it is said."""

from dataclasses import replace

import pytest

from softipu.cost import Plan, Stage, price
from softipu.hardware import find_system
from softipu.planner.advice import remedies
from tests.softipu.cost.small_step import adam
from tests.softipu.planner.test_search import Known

POD = find_system("bow-pod16")


def advised(kibibytes, plan):
    batches = Known()
    pod = replace(POD, ipu=replace(POD.ipu, n_tiles=2, sram_bytes_per_tile=kibibytes * 1024))
    optimizer = adam(batches.at(2))
    report = price(batches.at(plan.micro_batch), optimizer, plan, pod)
    return batches, optimizer, report, pod, remedies(batches, optimizer, report, pod)


PLANS = [
    Plan(micro_batch=4, gradient_accumulation=16),
    Plan((Stage("", 0), Stage("layers.1", 1)), micro_batch=2, gradient_accumulation=16, replicas=2),
]


@pytest.mark.parametrize("plan", PLANS, ids=["one IPU", "a pipeline"])
@pytest.mark.parametrize("kibibytes", [300, 450])
def test_figures_of_a_remedy_are_those_of_its_plan(kibibytes, plan):
    batches, optimizer, report, pod, found = advised(kibibytes, plan)
    assert not report.fits and found
    for remedy in found:
        after = price(batches.at(remedy.plan.micro_batch), optimizer, remedy.plan, pod)
        assert (remedy.fits, remedy.items_per_second) == (after.fits, after.items_per_second)
        freed = (report.worst_ipu.worst_tile_bytes - after.worst_ipu.worst_tile_bytes) * pod.ipu.n_tiles
        assert remedy.freed_bytes == pytest.approx(freed) and freed > 0


@pytest.mark.parametrize("plan", PLANS, ids=["one IPU", "a pipeline"])
@pytest.mark.parametrize("kibibytes", [300, 450])
def test_what_is_enough_comes_alone_and_the_fastest_first(kibibytes, plan):
    *_, found = advised(kibibytes, plan)
    if any(remedy.fits and not remedy.text.startswith("together: ") for remedy in found):
        assert all(remedy.fits for remedy in found)
    single = [remedy for remedy in found if not remedy.text.startswith("together: ")]
    rates = [remedy.items_per_second for remedy in single]
    assert rates == sorted(rates, reverse=True) and len(found) <= 5
    assert all(not remedy.text.startswith("together: ") for remedy in found[:-1])


def test_half_the_micro_batch_keeps_the_items_of_an_update():
    *_, found = advised(300, PLANS[0])
    smaller = [remedy.plan for remedy in found if remedy.text.startswith("micro-batch 4 -> ")]
    assert smaller and all(plan.items_per_update == PLANS[0].items_per_update for plan in smaller)
