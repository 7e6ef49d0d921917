"""How a host batch is cut into calls of the device.

A full host batch of B*R*G*D rows is one call. A short one, the rest of a data set, is what compiled programs of fixed shape cannot take as
it is. Its whole updates, or outside training its whole micro-batches, run as always, the latter in a call that is filled up with others
whose results are left out. What is left then is a short batch on the CPU. It is cut into micro-batches of equal size, so that means over
them are the mean over the batch:

training      they are accumulated into one more update, with the weight that the CPU gives them. Where that cannot be (a model split
              over IPUs needs a fixed number of micro-batches; whole batches and a short one weigh differently) the rows are dropped.
elsewhere     they run in one more call, filled up. So no padding takes part in any number, and every sample runs once.
"""

import math
from dataclasses import dataclass, replace
from typing import List, Optional

import torch

from lightning_ipu.structures.outputs import Cut


@dataclass(frozen=True)
class Sizes:
    """How host batches of one loader are made up.

    Attributes:
        n_iterations, n_accumulated, n_replicas: D, G (1 outside training) and R.
        micro_rows: B, or None for a loader that does not tell.
        drops_short: the user's loader was to drop incomplete batches.
        n_rows: samples of one epoch, if the loader can tell.
        is_split: a replica takes several IPUs, whose pipeline needs as many micro-batches as a whole call has.
        varies: G is another one in other epochs.
    """

    n_iterations: int
    n_accumulated: int
    n_replicas: int
    micro_rows: Optional[int]
    drops_short: bool = False
    n_rows: Optional[int] = None
    is_split: bool = False
    varies: bool = False

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

    @property
    def is_rest_known(self) -> bool:
        """Whether it is known before training which rows of an epoch are too few for an update."""
        return self.n_rows is not None and not self.varies

    def accumulating(self, n_accumulated: int) -> "Sizes":
        """The same host batches with another G, which divides D*G: there are more updates in one, or fewer."""
        return replace(self, n_iterations=self.n_groups // n_accumulated, n_accumulated=n_accumulated)

    def cut_of_rest(self, rows: int) -> Optional[Cut]:
        """How ``rows`` rows, fewer than one update takes, make an update as on the CPU; None if they are dropped."""
        if self.micro_rows is None or self.is_split:
            return None
        usual = self.micro_rows * self.n_replicas  # the CPU's batch
        n_whole, short = divmod(rows, usual)
        if self.drops_short:
            short = 0
        if short and n_whole:
            return None
        if short:
            return self._cut_of_short(short)
        if n_whole:
            n_micro = n_whole * self.n_replicas
            return Cut(1, n_whole, self.n_replicas, self.micro_rows, n_micro, share=n_whole / self.n_accumulated)
        return None

    def dropped_of(self, rows: int) -> int:
        """How many of ``rows`` rows, fewer than one update takes, are dropped, and not because the user's loader was to drop them."""
        if self.micro_rows is None or self.cut_of_rest(rows) is not None:
            return 0
        return 0 if self.drops_short and rows < self.micro_rows * self.n_replicas else rows

    def _cut_of_short(self, rows: int) -> Optional[Cut]:
        assert self.micro_rows is not None
        size = largest_divisor(rows, self.micro_rows)
        if size == 1 and self.micro_rows > 1 and rows > 1:
            return None  # single samples have no statistics for BatchNorm
        n_micro = rows // size
        n_replicas = math.gcd(n_micro, self.n_replicas)
        return Cut(1, n_micro // n_replicas, n_replicas, size, n_micro, is_one_group=True, share=1 / self.n_accumulated)


def largest_divisor(number: int, limit: int) -> int:
    """The largest divisor of ``number`` that is at most ``limit``."""
    return next(n for n in range(min(number, limit), 0, -1) if number % n == 0)


@dataclass(frozen=True)
class Piece:
    """One call of the device.

    Attributes:
        cut: how its rows are cut.
        first_row, n_rows: which rows of the host batch; n_rows None takes every tensor whole.
        first_group: how many groups of the host batch come before it.
        ends_update: it is no part of an update, or the last one.
    """

    cut: Cut
    first_row: int = 0
    n_rows: Optional[int] = None
    first_group: int = 0
    ends_update: bool = True

    @property
    def n_updates(self) -> int:
        """Weight updates that are made with this call."""
        return self.cut.n_iterations if self.ends_update else 0

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
        own = replace(cut, n_iterations=1, n_real=n_real)
        made.append(
            Piece(own, piece.first_row + start * cut.micro_rows, n_real * cut.micro_rows, piece.first_group + start // cut.n_replicas)
        )
    return made


def parts_of(piece: Piece, rows: int) -> List[Piece]:
    """The groups of an update of ``rows`` rows as calls of their own, whose gradients make one update together."""
    cut = piece.cut
    assert cut.micro_rows is not None and cut.n_iterations == 1
    one = replace(cut, n_accumulated=1, n_real=cut.n_replicas, share=cut.share / cut.n_accumulated, is_part=True)
    size = cut.n_replicas * cut.micro_rows
    last = cut.n_accumulated - 1
    return [Piece(one, piece.first_row + j * size, size, piece.first_group + j, ends_update=j == last) for j in range(last + 1)]


def _updates(rows: int, micro_rows: int, sizes: Sizes, most_updates: Optional[int]) -> List[Piece]:
    per_update = micro_rows * sizes.n_accumulated * sizes.n_replicas
    limit = rows if most_updates is None else most_updates
    one = Cut(1, sizes.n_accumulated, sizes.n_replicas, micro_rows, sizes.n_accumulated * sizes.n_replicas)
    n_updates = rows // per_update
    pieces = [Piece(one, i * per_update, per_update, i * sizes.n_accumulated) for i in range(min(n_updates, limit))]
    rest = rows - n_updates * per_update
    cut = sizes.cut_of_rest(rest)
    if len(pieces) < limit and cut is not None:
        taken = cut.n_micro_batches * (cut.micro_rows or 1)
        pieces.append(Piece(cut, rows - rest, taken, n_updates * sizes.n_accumulated))
    return pieces


def _evaluations(rows: int, micro_rows: int, sizes: Sizes) -> List[Piece]:
    usual = micro_rows * sizes.n_replicas
    short = rows % usual  # the CPU's last batch
    if sizes.drops_short:
        short -= short % micro_rows
    # Whole micro-batches need no program of their own.
    last = 0 if short % micro_rows == 0 else short
    pieces = []
    done, end = 0, rows - rows % usual + short - last
    while done < end:
        n_real = min((end - done) // micro_rows, sizes.n_micro_batches)
        cut = Cut(sizes.n_iterations, 1, sizes.n_replicas, micro_rows, n_real)
        pieces.append(Piece(cut, done, n_real * micro_rows, done // usual))
        done += n_real * micro_rows
    if last:
        size = largest_divisor(last, micro_rows)
        # A pipeline needs as many micro-batches as a whole call has.
        n_iterations = max(-(-last // (size * sizes.n_replicas)), sizes.n_iterations if sizes.is_split else 1)
        pieces.append(Piece(Cut(n_iterations, 1, sizes.n_replicas, size, last // size, is_one_group=True), done, last, done // usual))
    return pieces
