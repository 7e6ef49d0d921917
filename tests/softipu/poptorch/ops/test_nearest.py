"""Nearest points against a search written with loops."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from softipu.errors import Error
from softipu.poptorch.ops.nearest import nearest

X = torch.tensor([[-1, -1], [-1, 1], [1, 1], [1, -1], [-2, -2], [-2, 2], [2, 2], [2, -2]], dtype=torch.float32)
Y = torch.tensor([[-1, 0], [1, 0], [-2, 0], [2, 0]], dtype=torch.float32)
BATCH_X, BATCH_Y = [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1]


def _reference(x, y, batch_x, batch_y):
    found = []
    for point, batch in zip(x, batch_x):
        distances = [(sum((a - b) ** 2 for a, b in zip(point, other)), index) for index, other in enumerate(y) if batch_y[index] == batch]
        found.append(min(distances)[1])
    return found


@given(
    counts=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=3),
    n_coordinates=st.integers(1, 3),
    seed=st.integers(0, 10**6),
)
def test_the_nearest_of_the_same_batch_is_found(counts, n_coordinates, seed):
    batch_x = [number for number, (n, _) in enumerate(counts) for _ in range(n)]
    batch_y = [number for number, (_, n) in enumerate(counts) for _ in range(n)]
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.rand(len(batch), n_coordinates, generator=generator, dtype=torch.float64) for batch in (batch_x, batch_y))
    expected = _reference(x.tolist(), y.tolist(), batch_x, batch_y)
    assert nearest(x, y, batch_x, batch_y).tolist() == expected
    assert nearest(x, y, torch.tensor(batch_x), torch.tensor(batch_y)).tolist() == expected
    assert nearest(x, y, batch_x, torch.tensor(batch_y)).tolist() == expected


@pytest.mark.parametrize("dtype", [torch.half, torch.float, torch.double])
def test_torch_clusters_example(dtype):
    assert nearest(X.to(dtype), Y.to(dtype), BATCH_X, BATCH_Y).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert nearest(X.to(dtype), Y.to(dtype)).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_points_may_be_numbers():
    assert nearest(torch.tensor([0.1, 4.8, 2.1]), torch.tensor([5.0, 0.0, 2.0])).tolist() == [1, 0, 2]


def test_the_first_of_equally_near_points_wins():
    assert nearest(torch.tensor([0.0]), torch.tensor([1.0, -1.0, 1.0])).tolist() == [0]


def test_a_batch_that_is_left_out_is_batch_zero():
    assert nearest(X[:2], Y, batch_y=[0, 0, 0, 0]).tolist() == [0, 0]
    assert nearest(X[:2], Y, batch_x=[0, 0], batch_y=[]).tolist() == [0, 0]


def test_points_far_apart_do_not_mix_batches():
    x = torch.tensor([[0.0], [1e6]])
    y = torch.tensor([[1e6], [0.0]])
    assert nearest(x, y, [0, 1], [0, 1]).tolist() == [0, 1]


def test_the_search_can_be_captured():
    traced = make_fx(nearest, tracing_mode="fake")(X, Y, torch.zeros(8), torch.zeros(4))
    assert traced(X, Y, torch.tensor(BATCH_X), torch.tensor(BATCH_Y)).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    with_lists = make_fx(lambda x, y: nearest(x, y, BATCH_X, BATCH_Y), tracing_mode="fake")(torch.zeros(8, 2), torch.zeros(4, 2))
    assert with_lists(X, Y).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([0.0], Y), r"`nearest` must take a torch.tensor `x` input. <class 'list'> is not supported"),
        ((X, [0.0]), r"`nearest` must take a torch.tensor `y` input. <class 'list'> is not supported"),
        ((X, Y, (0,), BATCH_Y), r"`batch_x` of `nearest` must be a torch.Tensor or a list while it is of type <class 'tuple'>"),
        ((X.view(2, 2, 4), Y), r"given `x` of shape \[2, 2, 4\]"),
        ((X, Y[:, :1]), r"points of 2 coordinates in `x` and of 1 in `y`"),
        ((X, Y, [1, 0, 0, 0, 0, 0, 0, 0], BATCH_Y), r"'batch_x' of `nearest` is not sorted"),
        ((X, Y, BATCH_X, [0, 0, 0, 0]), r"occur in one of 'batch_x' and 'batch_y' only: \[1\]"),
        ((X, Y, [0, 1], BATCH_Y), r"'batch_x' of `nearest` has the shape \[2\], but there are 8 points"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(Error, match=message):
        nearest(*arguments)
