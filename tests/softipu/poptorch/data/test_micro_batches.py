"""Host batches of a batch sampler: the user's collate function gets micro-batches, and what it makes is joined."""

import pickle

import pytest
import torch
from torch.utils.data import BatchSampler, Dataset, Sampler, SequentialSampler

from softipu import poptorch
from softipu.poptorch.data.micro_batches import HostIndices


class Numbers(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return torch.full((2,), float(index)), {"label": index}


class Growing(Sampler):
    """Batches of 1, 2, ... size indices, and again."""

    def __init__(self, n, size):
        self.n, self.batch_size = n, size

    def __iter__(self):
        start, size = 0, 1
        while start < self.n:
            yield list(range(start, min(self.n, start + size)))
            start, size = start + size, size % self.batch_size + 1

    def __len__(self):
        return len(list(iter(self)))


class Padded:
    """Stacks samples and adds rows of -1 until there are ``size``."""

    def __init__(self, size):
        self.size = size

    def __call__(self, samples):
        rows = [x for x, _ in samples] + [torch.full((2,), -1.0)] * (self.size - len(samples))
        return torch.stack(rows), {"n": torch.tensor([len(samples)])}


def loader(n, batch_sampler, d, **arguments):
    options = poptorch.Options()
    options.deviceIterations(d)
    return poptorch.DataLoader(options, Numbers(n), batch_sampler=batch_sampler, **arguments)


@pytest.mark.parametrize("n_workers", [0, 2])
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("d", [1, 3])
def test_each_micro_batch_is_padded_by_itself(d, drop_last, n_workers):
    sampler = Growing(16, 3)  # 1 2 3 1 2 3 1 2 1 indices
    made = loader(16, sampler, d, collate_fn=Padded(4), drop_last=drop_last, num_workers=n_workers)
    sizes = [len(batch) for batch in sampler]
    groups = [sizes[i : i + d] for i in range(0, len(sizes), d)]
    batches = list(made)
    assert len(batches) == len(made) == len(groups)  # 9 batches: no group is incomplete
    first = 0
    for (rows, counts), group in zip(batches, groups):
        assert counts["n"].tolist() == group
        expected = []
        for size in group:
            expected += [float(i) for i in range(first, first + size)] + [-1.0] * (4 - size)
            first += size
        assert rows[:, 0].tolist() == expected


@pytest.mark.parametrize(("drop_last", "n_batches"), [(True, 2), (False, 3)])
def test_an_incomplete_group_at_the_end_is_dropped_on_demand(drop_last, n_batches):
    batches = list(loader(16, Growing(16, 3), 4, collate_fn=Padded(4), drop_last=drop_last))
    assert [len(rows) for rows, _ in batches] == [16, 16, 4][:n_batches]


class Counted(Padded):
    def __call__(self, samples):
        rows, counts = super().__call__(samples)
        return rows, counts["n"]


def test_in_another_process_too():
    made = loader(16, Growing(16, 3), 3, collate_fn=Counted(4), mode=poptorch.DataLoaderMode.Async)
    try:
        assert [n.tolist() for _, n in made] == [[1, 2, 3], [1, 2, 3], [1, 2, 1]]
    finally:
        made.terminate()


def test_stacked_samples_are_as_from_one_batch():
    batches = list(loader(12, BatchSampler(SequentialSampler(range(12)), 2, False), 3))
    assert [x[:, 0].tolist() for x, _ in batches] == [[float(i) for i in range(6)], [float(i) for i in range(6, 12)]]
    assert [y["label"].tolist() for _, y in batches] == [list(range(6)), list(range(6, 12))]


def test_micro_batches_of_other_shapes_are_refused():
    def longest(samples):
        return torch.zeros(1, int(samples[-1][1]["label"]) + 1)

    with pytest.raises(poptorch.Error, match=r"shapes \[\[1, 1\], \[1, 3\]\].*pad all of them to the same"):
        list(loader(3, Growing(3, 2), 2, collate_fn=longest))


def test_words_are_collated_for_the_whole_host_batch():
    def named(samples):
        return torch.stack([x for x, _ in samples]), [f"{y['label']}.png" for _, y in samples]

    batches = list(loader(6, BatchSampler(SequentialSampler(range(6)), 1, False), 3, collate_fn=named))
    assert [names for _, names in batches] == [["0.png", "1.png", "2.png"], ["3.png", "4.png", "5.png"]]
    assert [x[:, 0].tolist() for x, _ in batches] == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_the_dataset_stays_the_users():
    made = loader(6, Growing(6, 2), 2, collate_fn=Padded(2))
    list(made)
    assert type(made.dataset) is Numbers
    assert type(made.collate_fn) is Padded


def test_indices_keep_their_parts_between_processes():
    indices = pickle.loads(pickle.dumps(HostIndices([[3, 1], [2]])))
    assert (indices, indices.sizes) == ([3, 1, 2], [2, 1])
