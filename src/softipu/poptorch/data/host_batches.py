"""Batch samplers whose batches are whole host batches: the samples of one call of the device."""

from typing import Any, Iterable, Iterator, List, Optional, Sequence, Union

from torch.utils.data import BatchSampler, Sampler

from softipu.poptorch.data.micro_batches import HostIndices


class HostBatches(BatchSampler):
    """Host batches of ``batch_size`` indices from a sampler.

    A type of its own, so that a loader which is made again from the batch sampler of another one, as Lightning does for predictions,
    sees that these batches are host batches already.
    """


class MergedBatches(Sampler):
    """The batches of another batch sampler, joined ``n_merged`` at a time.

    Args:
        batch_sampler: gives lists of indices, one per micro batch.
        n_merged: micro batches of a host batch.
        drop_last: leave out a host batch at the end that is incomplete: too few batches, or a short one at the end of a torch
            BatchSampler. Other batch samplers may give batches of any size.
    """

    def __init__(self, batch_sampler: Iterable[Sequence[Any]], n_merged: int, *, drop_last: bool) -> None:
        self._batch_sampler = batch_sampler
        self.n_merged = n_merged
        self._drop_last = drop_last
        size = getattr(batch_sampler, "batch_size", None)
        self.n_rows: Optional[int] = size * n_merged if isinstance(size, int) else None

    @property
    def sampler(self) -> Any:
        """The sampler of the batch sampler, which Lightning tells the epoch."""
        return getattr(self._batch_sampler, "sampler", None)

    def __iter__(self) -> Iterator[List[Any]]:
        batches: List[Sequence[Any]] = []
        for batch in self._batch_sampler:
            batches.append(batch)
            if len(batches) == self.n_merged:
                merged, batches = HostIndices(batches), []
                if self._is_wanted(merged):
                    yield merged
        if batches and not self._drop_last:
            yield HostIndices(batches)

    def __len__(self) -> int:
        """Number of host batches.

        Raises:
            TypeError: the batch sampler has no length.
        """
        n_batches = len(self._batch_sampler)  # type: ignore[arg-type]
        if not self._drop_last:
            return (n_batches + self.n_merged - 1) // self.n_merged
        ends_short = self._ends_short()
        return (n_batches - ends_short) // self.n_merged

    def _is_wanted(self, indices: List[Any]) -> bool:
        return not self._drop_last or not isinstance(self._batch_sampler, BatchSampler) or len(indices) == self.n_rows

    def _ends_short(self) -> bool:
        """Whether the last batch has fewer indices than the others, as far as the batch sampler tells."""
        if not isinstance(self._batch_sampler, BatchSampler) or self._batch_sampler.drop_last:
            return False
        try:
            return len(self._batch_sampler.sampler) % self._batch_sampler.batch_size != 0  # type: ignore[arg-type]
        except TypeError:
            return False


def are_host_batches(batch_sampler: Any) -> bool:
    """Whether a batch sampler gives host batches already: ours, or Lightning's wrapper around one."""
    return _unwrapped(batch_sampler) is not None


def are_merged(batch_sampler: Any) -> bool:
    """Whether a batch sampler gives host batches of several micro-batches of the user's batch sampler."""
    ours = _unwrapped(batch_sampler)
    return isinstance(ours, MergedBatches) and ours.n_merged > 1


def rows_of(batch_sampler: Any) -> Optional[int]:
    """Rows of a host batch; None when the user's batch sampler does not tell the size of its batches."""
    ours = _unwrapped(batch_sampler)
    return ours.batch_size if isinstance(ours, HostBatches) else ours.n_rows if ours is not None else None


def _unwrapped(batch_sampler: Any) -> Union[HostBatches, MergedBatches, None]:
    for candidate in (batch_sampler, getattr(batch_sampler, "_batch_sampler", None)):
        if isinstance(candidate, (HostBatches, MergedBatches)):
            return candidate
    return None
