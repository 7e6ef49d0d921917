"""Host batches cut into calls of the device."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_ipu.loading.cutting import Sizes, one_by_one, pieces_of

small = st.integers(1, 4)


def rows_taken(pieces, rows):
    x = torch.arange(rows)
    return [int(v) for piece in pieces for v in piece.rows_of(x, rows)[: rows if piece.n_rows is None else piece.n_rows]]


@given(small, small, st.sampled_from([1, 2, 4]), small, st.integers(1, 80))
def test_evaluation_takes_every_row_once_and_in_order(d, _, r, b, rows):
    pieces = pieces_of(rows, Sizes(d, 1, r, b), trains=False)
    assert rows_taken(pieces, rows) == list(range(rows))


@given(small, small, st.sampled_from([1, 2, 4]), small, st.integers(1, 80))
def test_training_takes_whole_updates_in_order_and_a_rest_or_tells(d, g, r, b, rows):
    sizes = Sizes(d, g, r, b)
    rows = min(rows, b * sizes.n_micro_batches)
    pieces = pieces_of(rows, sizes, trains=True)
    rest = rows % sizes.update_rows
    lost = sizes.dropped_of(rest)
    assert lost in (0, rest)
    assert rows_taken(pieces, rows) == list(range(rows - lost))
    assert sum(piece.cut.n_iterations for piece in pieces) == rows // sizes.update_rows + int(rest > lost)


@given(small, st.sampled_from([1, 2, 4]), small, st.integers(1, 60))
def test_a_rest_weighs_as_much_as_its_batches_do_on_the_cpu(g, r, b, rows):
    sizes = Sizes(1, g, r, b)
    cut = sizes.cut_of_rest(rows % sizes.update_rows)
    if cut is not None:
        n_batches = -(-(rows % sizes.update_rows) // (b * r))
        assert cut.share == n_batches / g
        assert cut.n_real == cut.n_micro_batches == cut.n_accumulated * cut.n_replicas
        assert cut.micro_rows <= b
        assert cut.n_groups == n_batches


def test_a_rest_of_a_split_model_is_dropped():
    assert Sizes(1, 4, 2, 4, is_split=True).dropped_of(8) == 8
    assert Sizes(1, 4, 2, 4).dropped_of(8) == 0


def test_a_short_batch_of_evaluation_is_one_group():
    *whole, rest = pieces_of(30, Sizes(1, 1, 4, 4), trains=False)
    assert (rest.cut.micro_rows, rest.cut.n_real, rest.cut.n_groups, rest.cut.group(0)) == (2, 7, 1, slice(0, 7))
    assert [piece.n_rows for piece in whole] == [16]


@given(small, st.sampled_from([1, 2]), small, st.integers(1, 40))
def test_pieces_are_filled_up_to_whole_calls(d, r, b, rows):
    for piece in pieces_of(rows, Sizes(d, 1, r, b), trains=False):
        filled = piece.rows_of(torch.arange(rows), rows)
        assert len(filled) == piece.cut.n_micro_batches * piece.cut.micro_rows


def test_a_full_batch_is_one_call_with_whole_tensors():
    (piece,) = pieces_of(24, Sizes(3, 2, 2, 2), trains=True)
    x = torch.arange(24)
    assert piece.rows_of(x, 24) is x
    assert piece.cut.n_groups == 6


def test_max_steps_cuts_a_call_short():
    pieces = pieces_of(32, Sizes(4, 1, 2, 4), trains=True, most_updates=3)
    assert rows_taken(pieces, 32) == list(range(24))
    assert len(pieces) == 3


def test_a_loader_that_was_to_drop_short_batches_has_them_dropped():
    assert rows_taken(pieces_of(10, Sizes(4, 1, 1, 4, True), trains=True), 10) == list(range(8))
    assert rows_taken(pieces_of(10, Sizes(4, 1, 1, 4, True), trains=False), 10) == list(range(8))


def test_rows_that_do_not_divide_are_an_error_where_the_batch_size_is_unknown():
    with pytest.raises(ValueError, match="A host batch of 10 rows cannot be cut into 4 micro-batches"):
        pieces_of(10, Sizes(4, 1, 1, None), trains=True)


def test_a_tensor_that_cannot_be_cut_along_is_an_error():
    piece = pieces_of(10, Sizes(1, 1, 4, 4), trains=False)[0]
    with pytest.raises(ValueError, match=r"short host batch of 10 rows has a tensor of shape \(3, 2\)"):
        piece.rows_of(torch.ones(3, 2), 10)


def test_device_iterations_one_by_one_are_the_same_rows_and_groups():
    (piece,) = pieces_of(24, Sizes(3, 2, 2, 2), trains=True)
    single = one_by_one(piece, 24)
    assert rows_taken(single, 24) == list(range(24))
    assert [p.first_group for p in single] == [0, 2, 4]
