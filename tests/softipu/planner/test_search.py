"""Searches on a small transformer and IPUs of few tiles."""

import re
from dataclasses import replace

import pytest

from softipu.cost import Plan
from softipu.hardware import find_system
from softipu.planner import Space
from softipu.planner.micro_batches import MicroBatches
from softipu.planner.search import Search
from softipu.report.plan import Schedule
from tests.softipu.cost.small_step import adam, workload

POD = find_system("bow-pod16")


class Known(MicroBatches):
    """Workloads that are captured already."""

    def __init__(self):
        super().__init__(lambda n: None, 2)

    def at(self, n):
        return workload(width=64, n_layers=6, micro_batch=n)


def searched(kibibytes, space):
    """The search on IPUs of two tiles of so much memory."""
    batches = Known()
    pod = replace(POD, ipu=replace(POD.ipu, n_tiles=2, sram_bytes_per_tile=kibibytes * 1024))
    return Search(batches, adam(batches.at(2)), Plan(), pod, space).run()


SPACE = Space(micro_batches=(2,), n_ipus=4, ipus_per_replica=(2, 4))


def fullest(found):
    return found.best.worst_ipu.worst_tile_bytes / found.best.worst_ipu.tile_available_bytes


@pytest.mark.parametrize("kibibytes", [250, 624])
def test_what_is_found_fits_and_fills_its_pipeline(kibibytes):
    found = searched(kibibytes, SPACE)
    plan = found.best.plan
    assert found.best.fits and fullest(found) <= 1 and plan.n_ipus <= 4 and plan.micro_batch == 2
    if plan.schedule is Schedule.PIPELINED:
        assert plan.gradient_accumulation >= 2 * len(plan.stages) - 1
    rates = [candidate.items_per_second for candidate in found.result.front]
    assert rates == sorted(rates, reverse=True)


def test_with_less_memory_pipelines_fall_first_and_accumulation_last():
    plans = [found.best and found.best.plan for found in (searched(n, SPACE) for n in (624, 400, 300, 250, 220, 180, 140, 60))]
    kinds = ["nothing" if p is None else "alone" if p.gradient_accumulation == 1 else p.schedule.value for p in plans]
    assert list(dict.fromkeys(kinds)) == ["pipelined", "sharded", "alone", "nothing"]
    assert kinds == sorted(kinds, key=["pipelined", "sharded", "alone", "nothing"].index)
    assert all(plan.schedule is Schedule.SHARDED for plan, kind in zip(plans, kinds) if kind == "alone")


def test_more_memory_is_never_slower():
    rates = [searched(n, SPACE).best.items_per_second for n in (180, 250, 300, 624)]
    assert rates == sorted(rates)


def test_where_nothing_fits_the_search_says_why():
    found = searched(60, SPACE)
    assert found.best is None and not found.closest.fits
    reasons = {fallen.what: fallen.why for fallen in found.result.fallen}
    assert "4 IPUs a replica, micro-batch 2, one IPU at a time, without accumulation" in reasons
    assert all("the leanest split needs" in why for why in reasons.values())


def test_a_wanted_batch_is_kept():
    found = searched(624, replace(SPACE, items_per_update=64))
    assert found.best.plan.items_per_update == 64


@pytest.mark.parametrize("kibibytes", [300, 624])
def test_a_choice_that_fell_for_speed_is_slower_than_what_beat_it(kibibytes):
    """Only a bound, "at most", may be above: the choice itself was not priced."""
    found = searched(kibibytes, Space(micro_batches=(1, 2, 4), n_ipus=4, items_per_update=64))
    told = [fallen.why for fallen in found.result.fallen if " samples/s on " in fallen.why]
    assert told
    for why in told:
        own, other = (float(n.replace(",", "")) for n in re.findall(r"([\d,.]+)(?= samples/s on| with)", why))
        assert own <= other or why.startswith("at most"), why
