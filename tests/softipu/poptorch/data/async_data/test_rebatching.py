"""Cutting and joining items into batches of one length, without any process."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softipu.poptorch.data.async_data.rebatching import rebatched, whole


def _joined(pieces, batch_rows):
    """Batches as a reader of the ring sees them: pieces are copied into a buffer, which is read when it is complete."""
    batches, buffer = [], torch.full((batch_rows,), -1)
    for piece in pieces:
        if piece.n_rows:
            buffer[piece.first_row : piece.first_row + piece.n_rows] = piece.tensors[0]
        if piece.is_last:
            batches.append(buffer[: piece.first_row + piece.n_rows].tolist())
            buffer = torch.full((batch_rows,), -1)
    return batches


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 8), st.booleans())
def test_rows_keep_their_order_and_fill_every_batch(row_counts, batch_rows, drop_last):
    rows = torch.arange(sum(row_counts))
    items = [[part] for part in rows.split(row_counts)] if row_counts else []

    expected = [part.tolist() for part in rows.split(batch_rows)] if len(rows) else []
    if drop_last:
        expected = [part for part in expected if len(part) == batch_rows]

    assert _joined(rebatched(items, batch_rows, drop_last=drop_last), batch_rows) == expected


def test_rows_are_cut_without_a_copy():
    item = torch.arange(5)
    pieces = list(rebatched([[item]], 3, drop_last=True))
    assert [piece.tensors[0].data_ptr() for piece in pieces] == [item.data_ptr(), item[3:].data_ptr()]


def test_all_tensors_of_an_item_are_cut_alike():
    (piece, rest) = rebatched([[torch.arange(4), torch.arange(8).view(4, 2)]], 3, drop_last=True)
    assert [tensor.tolist() for tensor in piece.tensors] == [[0, 1, 2], [[0, 1], [2, 3], [4, 5]]]
    assert [tensor.tolist() for tensor in rest.tensors] == [[3], [[6, 7]]]


def test_a_tensor_without_rows_is_refused():
    with pytest.raises(AssertionError, match=r"one of the tensors has no dimension \(shapes \[\[2\], \[\]\]\)"):
        list(rebatched([[torch.zeros(2), torch.zeros(())]], 4, drop_last=True))


def test_tensors_of_different_lengths_are_refused():
    with pytest.raises(AssertionError, match=r"differ there \(shapes \[\[2\], \[3, 1\]\]\)"):
        list(rebatched([[torch.zeros(2), torch.zeros(3, 1)]], 4, drop_last=True))


def test_whole_items_are_batches_of_their_own():
    pieces = list(whole([[torch.zeros(())], [torch.ones(())]]))
    assert [(float(piece.tensors[0]), piece.n_rows, piece.is_last) for piece in pieces] == [(0, None, True), (1, None, True)]
