"""Micro batches of a batch sampler, merged to host batches."""

from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import BatchSampler

from softipu.poptorch.data.host_batches import HostBatches, MergedBatches, are_host_batches


@given(n=st.integers(0, 60), size=st.integers(1, 5), n_merged=st.integers(1, 4), inner_drops=st.booleans(), drop_last=st.booleans())
def test_batches_are_merged_in_order_and_counted_rightly(n, size, n_merged, inner_drops, drop_last):
    merged = MergedBatches(BatchSampler(range(n), size, inner_drops), n_merged, drop_last=drop_last)
    batches = list(merged)
    usable = n // size * size if inner_drops else n
    if drop_last:
        usable = usable // (size * n_merged) * (size * n_merged)

    assert len(merged) == len(batches)
    assert sum(batches, []) == list(range(usable))
    assert all(len(batch) == size * n_merged for batch in batches[:-1])
    assert merged.n_rows == size * n_merged


def test_batches_of_a_sampler_that_does_not_tell_their_size_are_merged_as_they_are():
    batches = [[0, 1], [2], [3, 4, 5], [6], [7]]
    merged = MergedBatches(batches, 2, drop_last=True)
    assert list(merged) == [[0, 1, 2], [3, 4, 5, 6]]
    assert len(merged) == 2 and merged.n_rows is None
    assert list(MergedBatches(batches, 2, drop_last=False)) == [[0, 1, 2], [3, 4, 5, 6], [7]]


def test_the_inner_sampler_is_reachable():
    sampler = [0, 1, 2]
    assert MergedBatches(BatchSampler(sampler, 1, False), 2, drop_last=True).sampler is sampler
    assert MergedBatches([[0]], 2, drop_last=True).sampler is None


def test_host_batches_are_recognized():
    class Wrapper:
        def __init__(self, batch_sampler):
            self._batch_sampler = batch_sampler

    ours = [HostBatches([0], 1, False), MergedBatches([[0]], 2, drop_last=True)]
    assert all(map(are_host_batches, ours + [Wrapper(batches) for batches in ours]))
    assert not are_host_batches(BatchSampler([0], 1, False)) and not are_host_batches([[0]])
