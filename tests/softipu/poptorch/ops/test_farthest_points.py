"""Farthest point sampling against a search written with loops."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from softipu.errors import Error
from softipu.poptorch.ops.farthest_points import fps


def _reference(points, ptr, n_samples):
    taken = []
    for begin, end, n in zip(ptr, ptr[1:], n_samples):
        chosen = [begin] if n else []
        while len(chosen) < n:
            nearest = [min(math.dist(points[i], points[c]) for c in chosen) for i in range(begin, end)]
            chosen.append(begin + nearest.index(max(nearest)))
        taken += chosen
    return taken


@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    n_coordinates=st.integers(1, 3),
    percent=st.integers(1, 100),
    seed=st.integers(0, 10**6),
)
def test_samples_equal_those_of_a_plain_search(lengths, n_coordinates, percent, seed):
    ptr = [0]
    for length in lengths:
        ptr.append(ptr[-1] + length)
    points = torch.rand(ptr[-1], n_coordinates, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    n_samples = [-(-length * percent // 100) for length in lengths]
    assert fps(points, ptr, percent / 100).tolist() == _reference(points.tolist(), ptr, n_samples)


def test_numbers_of_samples_are_rounded_up_in_single_precision():
    points = torch.rand(30, 2)
    assert len(fps(points, [0, 30], 0.1)) == 3, "30 * 0.1 is above 3 in double precision"
    assert len(fps(points, [0, 19], 0.5)) == 10
    assert len(fps(points, [0, 1], 0.3)) == 1


def test_segments_need_not_cover_all_points():
    points = torch.tensor([[9.0], [0.0], [1.0], [5.0], [9.0]])
    assert fps(points, [1, 4], 1.0).tolist() == [1, 3, 2]


def test_points_may_be_numbers_and_half_precision():
    points = torch.tensor([0.0, 1.0, 5.0, 3.0])
    assert fps(points, [0, 4], 1.0).tolist() == [0, 2, 3, 1]
    assert fps(points.half(), [0, 4], 1.0).tolist() == [0, 2, 3, 1]


def test_equal_points_are_taken_too():
    assert fps(torch.zeros(3, 2), [0, 3], 1.0).tolist() == [0, 0, 0]


def test_a_random_start_takes_the_same_points_in_another_order_and_every_point_can_be_first():
    points = torch.rand(7, 3)
    torch.manual_seed(0)
    firsts = set()
    for _ in range(200):
        samples = fps(points, [0, 5, 7], 1.0, random_start=True).tolist()
        assert set(samples[:5]) == set(range(5)) and set(samples[5:]) == {5, 6}
        firsts.add(samples[0])
    assert firsts == set(range(5))


@pytest.mark.parametrize("random_start", [False, True])
def test_sampling_can_be_captured(random_start):
    def sample(points):
        return fps(points, [0, 4, 9], 0.5, random_start)

    traced = make_fx(sample, tracing_mode="fake")(torch.zeros(9, 2))
    points = torch.rand(9, 2)
    torch.manual_seed(3)
    expected = sample(points)
    torch.manual_seed(3)
    assert torch.equal(traced(points), expected)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([1.0], [0, 1]), r"`fps` must take a torch.tensor input. <class 'list'> is not supported"),
        ((torch.zeros(3), (0, 3)), r"`ptr` must be a list of integers"),
        ((torch.zeros(3), [0, 1.5]), r"`ptr` must be a list of integers"),
        ((torch.zeros(3), [0]), r"`ptr` must contain at least 2 elements"),
        ((torch.zeros(3), [0, 3], 1), r"`ratio` must be of float type. <class 'int'> is not supported"),
        ((torch.zeros(3), [0, 3], 0.5, 1), r"`random_start` must be of bool type. <class 'int'> is not supported"),
        ((torch.zeros(3), [0, 4]), r"at most the number of points. `fps` was given \[0, 4\] for `src` of \[3\]"),
        ((torch.zeros(3), [2, 1]), r"`ptr` must rise"),
        ((torch.zeros(3), [0, 3], 1.5), r"`ratio` must be above 0 and at most 1. `fps` was given 1.5"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(Error, match=message):
        fps(*arguments)
