"""Outputs of all micro-batches, taken apart and joined again."""

import pytest
import torch

from lightning_ipu.structures.outputs import Cut, OutputShape, Results, whole

CUT = Cut(n_iterations=2, n_accumulated=1, n_replicas=2, micro_rows=3, n_real=4)


def results(tensor, kind=None, cut=CUT, shape=(), dtype=None):
    return Results([tensor], [OutputShape(shape, dtype or tensor.dtype, kind)], cut)


@pytest.mark.parametrize(("kind", "value"), [("mean", 2.5), (None, 2.5), ("sum", 10.0), ("max", 4.0), ("min", 1.0)])
def test_scalars_are_joined_by_their_kind(kind, value):
    assert float(results(torch.tensor([1.0, 2.0, 3.0, 4.0]), kind).joined(0, slice(0, 4))) == value


def test_whole_numbers_are_counts():
    made = results(torch.tensor([1, 2, 3, 4], dtype=torch.int32), dtype=torch.int64)
    total = made.joined(0, slice(0, 4))
    assert (int(total), total.dtype) == (10, torch.int64)


def test_truth_values_hold_if_all_do():
    assert not results(torch.tensor([True, True, False, True])).joined(0, slice(0, 4))


def test_rows_come_in_the_order_of_samples():
    tensor = torch.arange(24.0).reshape(12, 2)
    made = results(tensor, shape=(3, 2))
    assert torch.equal(made.joined(0, slice(0, 4)), tensor)
    assert torch.equal(made.joined(0, CUT.group(1)), tensor[6:])


def test_groups_end_where_the_data_end():
    cut = Cut(2, 1, 2, 3, n_real=3)
    assert cut.n_groups == 2
    assert [cut.group(j) for j in range(2)] == [slice(0, 2), slice(2, 3)]


def test_a_constant_of_the_host_is_the_same_for_all():
    made = results(torch.tensor([5.0, 6.0]), shape=(2,))
    assert made.micro_batches(0, slice(0, 4)).tolist() == [[5.0, 6.0]] * 4


def test_a_mean_over_several_calls_is_weighted_by_rows():
    short = results(torch.tensor(9.0), "mean", Cut(1, 1, 1, 2, 1))
    first = results(torch.tensor([1.0, 1.0, 1.0, 1.0]), "mean")
    total = whole([(first, slice(0, 4)), (short, slice(0, 1))], [0, 0])
    assert float(total) == pytest.approx((12 * 1.0 + 2 * 9.0) / 14)
