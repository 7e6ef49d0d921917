"""The dynamic programme against trying every cut."""

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softipu.planner.split import Bounds, Choice, leanest, split

units = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(0, 5)), min_size=1, max_size=8)


class Row:
    """Units with whole seconds, weights and stashes, so that sums are exact. Recomputing takes 4/3 of the time and stashes 1."""

    def __init__(self, given_units, room, n_stages):
        self.units, self.room, self.n_stages = given_units, room, n_stages
        self.n_asked = 0

    def choices(self, begin, end, stage):
        self.n_asked += 1
        seconds = 3 * sum(u[0] for u in self.units[begin:end])
        weights = sum(u[1] for u in self.units[begin:end])
        stash = sum(u[2] for u in self.units[begin:end])
        depth = 2 * (self.n_stages - 1 - stage) + 1
        return [
            Choice(begin, end, seconds, (weights + depth * stash) / self.room, False),
            Choice(begin, end, seconds * 4 / 3, (weights + depth * min(stash, 1) + stash) / self.room, True),
        ]

    def bounds(self):
        return Bounds(
            lambda begin, end: 3 * sum(u[0] for u in self.units[begin:end]),
            lambda begin, end: sum(u[1] for u in self.units[begin:end]) / self.room,
        )

    def every_plan(self):
        n = len(self.units)
        for inner in combinations(range(1, n), self.n_stages - 1):
            edges = (0, *inner, n)
            yield from product(*(self.choices(edges[i], edges[i + 1], i) for i in range(self.n_stages)))


def slowest(plan):
    return max(choice.seconds for choice in plan)


def fullest(plan):
    return max(choice.tile_fraction for choice in plan)


@given(units, st.integers(1, 4), st.integers(5, 60))
def test_no_cut_that_fits_is_faster_or_as_fast_and_emptier(given_units, n_stages, room):
    row = Row(given_units, room, n_stages)
    found = split(len(given_units), n_stages, row.choices, row.bounds())
    fitting = [plan for plan in row.every_plan() if fullest(plan) <= 1]
    if not fitting:
        assert found is None
        return
    assert (slowest(found), fullest(found)) == min((slowest(plan), fullest(plan)) for plan in fitting)


@given(units, st.integers(1, 4))
def test_the_leanest_cut_is_found_whether_it_fits_or_not(given_units, n_stages):
    row = Row(given_units, 1, n_stages)
    found = leanest(len(given_units), n_stages, row.choices, row.bounds())
    if len(given_units) < n_stages:
        assert found is None
    else:
        assert fullest(found) == min(map(fullest, row.every_plan()))


@given(units, st.integers(1, 4), st.integers(5, 60))
def test_stages_cover_every_unit_once_in_order(given_units, n_stages, room):
    row = Row(given_units, room, n_stages)
    found = split(len(given_units), n_stages, row.choices, row.bounds())
    if found is not None:
        edges = [choice.begin for choice in found] + [found[-1].end]
        assert edges[0] == 0 and edges[-1] == len(given_units)
        assert edges == sorted(set(edges))
        assert [choice.end for choice in found] == edges[1:]


def test_slower_than_allowed_is_not_found():
    row = Row([(2, 1, 0)] * 4, 100, 2)
    assert slowest(split(4, 2, row.choices, row.bounds())) == 12
    assert split(4, 2, row.choices, row.bounds(), slowest_allowed=11) is None


def test_fewer_units_than_stages_cannot_be_split():
    row = Row([(1, 1, 1)] * 2, 10, 3)
    assert split(2, 3, row.choices, row.bounds()) is None


def test_a_stage_recomputes_only_where_it_must():
    row = Row([(2, 2, 2)] * 4, 12, 2)
    found = split(4, 2, row.choices, row.bounds())
    assert [choice.recompute for choice in found] == [True, False]


@pytest.mark.parametrize("n_layers", [32, 64, 128])
def test_work_grows_with_units_not_with_their_square(n_layers):
    """Per unit and stage only stages near the fair share are asked for: the asked number over N * N / S stays bounded."""
    row = Row([(1, 1, 1)] * n_layers, 10**6, 16)
    fair = split(n_layers, 16, row.choices, row.bounds(), slowest_allowed=3 * n_layers / 16)
    assert slowest(fair) == 3 * n_layers / 16
    assert row.n_asked <= 2 * 16 * n_layers * (n_layers / 16)
