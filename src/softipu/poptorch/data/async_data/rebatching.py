"""Items of any number of rows, cut and joined into batches of one number of rows."""

from typing import Iterable, Iterator, List, NamedTuple, Optional, Sequence

import torch

TensorList = Sequence[torch.Tensor]


class Piece(NamedTuple):
    """Rows to copy into a batch that is being filled.

    Attributes:
        tensors: the rows, or whole tensors of any dimension when ``n_rows`` is None.
        first_row: where in the batch they go.
        n_rows: how many there are; None for an item that is a batch of its own.
        is_last: the batch is complete with them.
    """

    tensors: TensorList
    first_row: int
    n_rows: Optional[int]
    is_last: bool


def whole(items: Iterable[TensorList]) -> Iterator[Piece]:
    """Every item is a batch of its own."""
    for tensors in items:
        yield Piece(tensors, 0, None, is_last=True)


def rebatched(items: Iterable[TensorList], batch_rows: int, *, drop_last: bool) -> Iterator[Piece]:
    """Items cut and joined into batches of ``batch_rows`` rows, in their order.

    Args:
        items: lists of tensors that have rows along dimension 0, equally many in the tensors of one item.
        batch_rows: rows of a batch.
        drop_last: leave an incomplete last batch unfinished; otherwise it ends with a piece without rows.

    Raises:
        AssertionError: tensors of one item with different numbers of rows, or a tensor without dimensions.
    """
    n_filled = 0
    for tensors in items:
        n_rows = _rows_of(tensors)
        start = 0
        while start < n_rows:
            n_taken = min(n_rows - start, batch_rows - n_filled)
            is_last = n_filled + n_taken == batch_rows
            yield Piece([tensor[start : start + n_taken] for tensor in tensors], n_filled, n_taken, is_last)
            n_filled = 0 if is_last else n_filled + n_taken
            start += n_taken
    if n_filled and not drop_last:
        yield Piece([], n_filled, 0, is_last=True)


def _rows_of(tensors: TensorList) -> int:
    shapes: List[List[int]] = [list(tensor.shape) for tensor in tensors]
    assert all(shapes), f"Rebatching joins items along dimension 0, but one of the tensors has no dimension (shapes {shapes})."
    assert len({shape[0] for shape in shapes}) == 1, (
        f"Rebatching joins items along dimension 0, but the tensors of one item differ there (shapes {shapes})."
    )
    return shapes[0][0]
