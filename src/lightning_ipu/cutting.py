"""How a host batch is cut into calls of the device.

A full host batch of B*R*G*D rows is one call. A short one, the rest of a data set, is what compiled programs of fixed shape cannot take as
it is:

training      whole updates (B*R*G rows each) run one by one; rows that are fewer than one update are trained on as one short micro-batch
              where there is one replica and no accumulation, as on the CPU, and dropped otherwise.
elsewhere     whole micro-batches run in one call that is filled up with others, whose results are left out; the last rows run as one short
              micro-batch. So no padding takes part in any number.
"""

from dataclasses import dataclass
from typing import List, Optional

import torch

from lightning_ipu.outputs import Cut


@dataclass(frozen=True)
class Sizes:
    """How host batches of one loader are made up.

    Attributes:
        n_iterations, n_accumulated, n_replicas: D, G (1 outside training) and R.
        micro_rows: B, or None for a loader that does not tell.
        drops_short: the user's loader was to drop incomplete batches.
    """

    n_iterations: int
    n_accumulated: int
    n_replicas: int
    micro_rows: Optional[int]
    drops_short: bool = False

    @property
    def n_micro_batches(self) -> int:
        """R*G*D."""
        return self.n_iterations * self.n_accumulated * self.n_replicas

    @property
    def n_groups(self) -> int:
        """Batches of an equivalent CPU run in one full host batch."""
        return self.n_iterations * self.n_accumulated

    @property
    def update_rows(self) -> Optional[int]:
        """Rows of one weight update, B*R*G."""
        return None if self.micro_rows is None else self.micro_rows * self.n_accumulated * self.n_replicas

    def trains_on(self, rows: int) -> bool:
        """Whether ``rows`` rows, fewer than one update takes, can be trained on as a batch of their own."""
        return rows > 0 and self.n_accumulated * self.n_replicas == 1 and not self.drops_short


@dataclass(frozen=True)
class Piece:
    """One call of the device.

    Attributes:
        cut: how its rows are cut.
        first_row, n_rows: which rows of the host batch; n_rows None takes every tensor whole.
        first_group: how many groups of the host batch come before it.
    """

    cut: Cut
    first_row: int = 0
    n_rows: Optional[int] = None
    first_group: int = 0

    def rows_of(self, tensor: torch.Tensor, batch_rows: Optional[int]) -> torch.Tensor:
        """This piece's rows of a tensor of the host batch, filled up to whole calls by repeating its first ones.

        Raises:
            ValueError: a tensor with another number of rows than the batch has.
        """
        if self.n_rows is None or not tensor.dim():
            return tensor
        if tensor.shape[0] != batch_rows:
            raise ValueError(
                f"A short host batch of {batch_rows} rows has a tensor of shape {tuple(tensor.shape)}, which cannot be cut along with it. "
                "Use drop_last=True, or give every tensor of the batch one row per sample."
            )
        own = tensor.narrow(0, self.first_row, self.n_rows)
        missing = self.cut.n_micro_batches * (self.cut.micro_rows or 1) - self.n_rows
        return own if missing <= 0 else torch.cat([own, own[:1].expand(missing, *own.shape[1:])])


def pieces_of(rows: Optional[int], sizes: Sizes, *, trains: bool, most_updates: Optional[int] = None) -> List[Piece]:
    """The calls for a host batch of ``rows`` rows.

    Args:
        rows: of the host batch; None where it has no tensor to tell.
        sizes: of full host batches.
        trains: whether calls update the weights.
        most_updates: run no more updates than this (Trainer's max_steps).

    Raises:
        ValueError: rows that do not divide, from a loader that does not tell its batch size.
    """
    n_micro = sizes.n_micro_batches
    micro_rows = sizes.micro_rows
    if micro_rows is None and rows is not None:
        if rows % n_micro:
            raise ValueError(
                f"A host batch of {rows} rows cannot be cut into {n_micro} micro-batches (device_iterations {sizes.n_iterations} x "
                f"accumulation {sizes.n_accumulated} x replicas {sizes.n_replicas}). Use a torch DataLoader with a batch_size, or give "
                "batches of a multiple."
            )
        micro_rows = rows // n_micro
    limited = most_updates is not None and most_updates < sizes.n_iterations
    if rows is None or micro_rows is None or (rows == micro_rows * n_micro and not limited):
        return [Piece(Cut(sizes.n_iterations, sizes.n_accumulated, sizes.n_replicas, micro_rows, n_micro))]
    if trains:
        return _updates(rows, micro_rows, sizes, most_updates)
    return _evaluations(rows, micro_rows, sizes)


def one_by_one(piece: Piece, rows: int) -> List[Piece]:
    """The device iterations of a piece of ``rows`` rows as pieces of their own."""
    cut = piece.cut
    assert cut.micro_rows is not None
    per_iteration = cut.n_accumulated * cut.n_replicas
    made = []
    for start in range(0, cut.n_real, per_iteration):
        n_real = min(per_iteration, cut.n_real - start)
        own = Cut(1, cut.n_accumulated, cut.n_replicas, cut.micro_rows, n_real)
        made.append(
            Piece(own, piece.first_row + start * cut.micro_rows, n_real * cut.micro_rows, piece.first_group + start // cut.n_replicas)
        )
    return made


def _updates(rows: int, micro_rows: int, sizes: Sizes, most_updates: Optional[int]) -> List[Piece]:
    per_update = micro_rows * sizes.n_accumulated * sizes.n_replicas
    limit = rows if most_updates is None else most_updates
    one = Cut(1, sizes.n_accumulated, sizes.n_replicas, micro_rows, sizes.n_accumulated * sizes.n_replicas)
    n_updates = rows // per_update
    pieces = [Piece(one, i * per_update, per_update, i * sizes.n_accumulated) for i in range(min(n_updates, limit))]
    rest = rows - n_updates * per_update
    if len(pieces) < limit and sizes.trains_on(rest):
        pieces.append(Piece(Cut(1, 1, 1, rest, 1), rows - rest, rest, n_updates))
    return pieces


def _evaluations(rows: int, micro_rows: int, sizes: Sizes) -> List[Piece]:
    pieces = []
    n_micro = sizes.n_micro_batches
    done = 0
    while rows - done >= micro_rows:
        n_real = min((rows - done) // micro_rows, n_micro)
        cut = Cut(sizes.n_iterations, 1, sizes.n_replicas, micro_rows, n_real)
        pieces.append(Piece(cut, done, n_real * micro_rows, done // (micro_rows * sizes.n_replicas)))
        done += n_real * micro_rows
    if rows > done and not sizes.drops_short:
        rest = rows - done
        pieces.append(Piece(Cut(1, 1, 1, rest, 1), done, rest, -(-done // (micro_rows * sizes.n_replicas))))
    return pieces
