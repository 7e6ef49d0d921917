"""Loaders of host batches made from the user's."""

import warnings

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler

from lightning_ipu import poptorch
from lightning_ipu._lightning import Lightning
from lightning_ipu.loading.batching import host_loader, sizes_of_loader, updates_per_epoch
from lightning_ipu.loading.cutting import Sizes

LIGHTNING = Lightning("lightning.pytorch")


class Numbers(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.tensor(i)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(40))


def made(loader, d=1, g=1, r=1, *, trains=True):
    return host_loader(loader, Sizes(d, g if trains else 1, r, None), poptorch, poptorch.Options(), LIGHTNING, trains=trains)


def rows(loader):
    return [batch.tolist() for batch in loader]


def test_host_batches_have_the_samples_of_all_micro_batches_in_order():
    loader = made(DataLoader(Numbers(48), batch_size=4), 2, 3, 2)
    assert isinstance(loader, poptorch.DataLoader)
    assert rows(loader) == [list(range(48))]
    assert sizes_of_loader(loader, None).micro_rows == 4


def test_workers_collate_function_and_generator_are_kept():
    def collate(items):
        return torch.stack(items) * 10

    generator = torch.Generator().manual_seed(3)
    own = DataLoader(Numbers(16), batch_size=4, shuffle=True, num_workers=1, collate_fn=collate, generator=generator, prefetch_factor=3)
    loader = made(own, 2)
    assert (loader.num_workers, loader.collate_fn, loader.generator, loader.prefetch_factor) == (1, collate, generator, 3)
    assert isinstance(loader.batch_sampler.sampler, RandomSampler)


def test_shuffled_samples_come_in_the_order_of_the_users_loader():
    plain = DataLoader(Numbers(16), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(3))
    ours = made(DataLoader(Numbers(16), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(3)), 2)
    assert sum(rows(ours), []) == sum(rows(plain), [])


def test_a_batch_sampler_is_kept():
    class Backwards(BatchSampler):
        def __iter__(self):
            return iter([list(reversed(batch)) for batch in super().__iter__()])

    loader = made(DataLoader(Numbers(16), batch_sampler=Backwards(SequentialSampler(Numbers(16)), 4, False)), 2)
    assert rows(loader) == [[3, 2, 1, 0, 7, 6, 5, 4], [11, 10, 9, 8, 15, 14, 13, 12]]


def test_evaluation_loses_no_sample():
    assert rows(made(DataLoader(Numbers(10), batch_size=4), 2, 1, 2, trains=False)) == [list(range(10))]


def test_training_keeps_a_rest_that_can_be_trained_on():
    assert [len(batch) for batch in rows(made(DataLoader(Numbers(10), batch_size=4)))] == [4, 4, 2]
    assert [len(batch) for batch in rows(made(DataLoader(Numbers(26), batch_size=4), 3))] == [12, 12, 2]


def test_nothing_is_said_where_nothing_is_lost_or_the_user_wanted_it():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(DataLoader(Numbers(24), batch_size=4), 3, 1, 2)
        made(DataLoader(Numbers(27), batch_size=4, drop_last=True), 1, 1, 2)
        made(DataLoader(Numbers(27), batch_size=4), 3)


def test_an_iterable_dataset_is_batched():
    assert [len(batch) for batch in rows(made(DataLoader(Stream(), batch_size=4), 3))] == [12, 12, 12, 4]


def test_batches_of_any_iterable_are_joined():
    class Batches:
        def __iter__(self):
            return iter(torch.arange(20).split(4))

        def __len__(self):
            return 5

    loader = made(Batches(), 2)
    assert [len(batch) for batch in rows(loader)] == [8, 8, 4]
    assert len(loader) == 3
    own = Batches()
    assert made(own) is own


def test_a_loader_without_batches_gives_joined_items():
    assert [len(batch) for batch in rows(made(DataLoader(torch.arange(20).split(4), batch_size=None), 2))] == [8, 8, 4]


def test_a_poptorch_loader_is_used_as_it_is():
    own = poptorch.DataLoader(poptorch.Options().deviceIterations(2), Numbers(16), batch_size=4)
    assert made(own, 2) is own
    assert sizes_of_loader(own, None).micro_rows == 4
    with pytest.raises(Exception, match=r"was made with deviceIterations\(2\).*but the Trainer needs 1, 1 and 2"):
        made(own, 1, 1, 2)


@pytest.mark.parametrize(("n", "d", "g", "r", "updates"), [(48, 2, 1, 1, 12), (46, 5, 1, 1, 12), (48, 2, 3, 2, 2)])
def test_updates_of_an_epoch(n, d, g, r, updates):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = made(DataLoader(Numbers(n), batch_size=4), d, g, r)
    assert updates_per_epoch(loader, Sizes(d, g, r, None), len(loader)) == updates
