"""Batches of a TensorDataset taken at once equal those that torch's loader collates row by row."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

from softipu.poptorch.data.tensor_rows import batches_at_once

TENSORS = (
    torch.randn(23, 3, 2),
    torch.arange(23),
    torch.randn(23, 4).half(),
    torch.randn(23).bool(),
    torch.randn(5, 23).t(),
    torch.randn(23, 6)[:, ::2],
)


@given(batch_size=st.integers(1, 9), shuffle=st.booleans(), drop_last=st.booleans(), seed=st.integers(0, 99), has_generator=st.booleans())
def test_batches_and_random_numbers_afterwards_are_torchs(batch_size, shuffle, drop_last, seed, has_generator):
    def drawn(iterate):
        torch.manual_seed(seed)
        generator = torch.Generator().manual_seed(seed + 1) if has_generator else None
        loader = DataLoader(TensorDataset(*TENSORS), batch_size, shuffle, drop_last=drop_last, generator=generator)
        batches = []
        for _ in range(2):
            iterator = iterate(loader)
            torch.rand(1)
            batches.append(list(iterator))
        return batches, torch.rand(1), None if generator is None else torch.rand(1, generator=generator)

    ours, *our_numbers = drawn(batches_at_once)
    torchs, *torchs_numbers = drawn(iter)
    assert str(our_numbers) == str(torchs_numbers)
    assert [len(epoch) for epoch in ours] == [len(epoch) for epoch in torchs]
    for our_batch, torchs_batch in zip(sum(ours, []), sum(torchs, [])):
        assert type(our_batch) is type(torchs_batch) and len(our_batch) == len(torchs_batch)
        for our_tensor, torchs_tensor in zip(our_batch, torchs_batch):
            assert torch.equal(our_tensor, torchs_tensor) and our_tensor.dtype == torchs_tensor.dtype
            assert our_tensor.is_contiguous()


def test_batches_are_copies():
    dataset = TensorDataset(torch.zeros(4))
    for (batch,) in batches_at_once(DataLoader(dataset, batch_size=2)):
        batch.fill_(1)
    assert not dataset.tensors[0].any()


def test_samplers_may_count_from_the_end_and_repeat():
    loader = DataLoader(TensorDataset(torch.arange(5)), batch_sampler=[[-1, 0, 0], [2]])
    assert [batch[0].tolist() for batch in batches_at_once(loader)] == [[4, 0, 0], [2]]


class Subclass(TensorDataset):
    def __getitem__(self, index):
        return super().__getitem__(-index)


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(Subclass(torch.arange(4)), batch_size=2),
        DataLoader(TensorDataset(torch.arange(4)), batch_size=2, collate_fn=list),
        DataLoader(TensorDataset(torch.arange(4)), batch_size=2, num_workers=1),
        DataLoader(TensorDataset(torch.arange(4)), batch_size=None),
        DataLoader([1, 2]),
    ],
    ids=["subclass", "collate_fn", "workers", "no batches", "list"],
)
def test_anything_that_is_not_stock_is_left_to_torch(loader):
    assert batches_at_once(loader) is None
