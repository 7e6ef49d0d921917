"""poptorch.DataLoader whose batches are made in another process."""

import multiprocessing
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, Dataset, IterableDataset, TensorDataset, get_worker_info

from softipu.errors import Error
from softipu.poptorch.data.async_data import AsynchronousDataAccessor
from softipu.poptorch.data.dataloader import DataLoader
from softipu.poptorch.enums import DataLoaderMode, SharingStrategy
from softipu.poptorch.options import Options

# More workers than this machine has cores are what the test is about.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")

FORK = {"sharing_strategy": SharingStrategy.Fork}
SYNC, ASYNC, REBATCHED = DataLoaderMode.Sync, DataLoaderMode.Async, DataLoaderMode.AsyncRebatched


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    assert not multiprocessing.active_children()


@pytest.fixture
def make():
    """Makes loaders that fork their workers, and ends them."""
    loaders = []

    def loader_of(dataset, options=None, mode=ASYNC, async_options=None, **arguments):
        if mode is not SYNC:
            arguments["async_options"] = {**FORK, **(async_options or {})}
        loaders.append(DataLoader(options or Options(), dataset, mode=mode, **arguments))
        return loaders[-1]

    yield loader_of
    for loader in loaders:
        loader.terminate()
        # Workers that a synchronous loader keeps between epochs end with its iterator.
        loader._iterator = None


class Stream(IterableDataset):
    """Samples [2, 3], shared out to torch's workers in blocks: of 101 samples and 7 workers, six of 15 and one of 11."""

    def __init__(self, n_samples, dtype=torch.float32):
        self.n_samples, self.dtype = n_samples, dtype

    def __len__(self):
        return self.n_samples

    def __iter__(self):
        info = get_worker_info()
        n_workers, number = (1, 0) if info is None else (info.num_workers, info.id)
        block = -(-self.n_samples // n_workers)
        for index in range(block * number, min(block * (number + 1), self.n_samples)):
            yield torch.full((2, 3), index, dtype=self.dtype)


class Indexed(Dataset):
    def __init__(self, n_samples, dtype=torch.float32):
        self.n_samples, self.dtype = n_samples, dtype

    def __len__(self):
        return self.n_samples

    def __getitem__(self, index):
        return torch.full((2, 3), index, dtype=self.dtype)


def _numbers(n_samples):
    return TensorDataset(torch.arange(n_samples))


def _rows(loader):
    """Sample numbers, batch by batch."""
    return [(batch if isinstance(batch, torch.Tensor) else batch[0]).flatten(1)[:, 0].tolist() for batch in loader]


def _pass(loader):
    return [batch[0].tolist() for batch in loader]


@given(n=st.integers(1, 60), batch_size=st.integers(1, 4), device_iterations=st.integers(1, 3), mode=st.sampled_from([ASYNC, REBATCHED]))
@settings(max_examples=20)
def test_batches_equal_those_of_a_synchronous_loader(n, batch_size, device_iterations, mode):
    options = Options().deviceIterations(device_iterations)
    dataset = _numbers(n + batch_size * device_iterations)
    if batch_size * device_iterations == 1:
        mode = ASYNC
    expected = DataLoader(options, dataset, batch_size=batch_size)
    loader = DataLoader(options, dataset, batch_size=batch_size, mode=mode, async_options=FORK)
    try:
        assert len(loader) == len(expected)
        assert [_pass(loader), _pass(loader)] == [_pass(expected)] * 2
    finally:
        loader.terminate()


@given(n=st.integers(1, 40), combined=st.integers(2, 7), worker_rows=st.integers(1, 7), n_merged=st.integers(1, 3))
@settings(max_examples=20)
def test_rebatching_without_dropping_gives_every_sample_once_in_order(n, combined, worker_rows, n_merged):
    loader = DataLoader(
        Options().deviceIterations(n_merged),
        _numbers(n),
        batch_size=combined,
        drop_last=False,
        mode=REBATCHED,
        rebatched_worker_size=min(worker_rows, combined * n_merged),
        async_options=FORK,
    )
    try:
        expected = [part.tolist() for part in torch.arange(n).split(combined * n_merged)]
        assert [_pass(loader), _pass(loader)] == [expected] * 2
        assert len(loader) == len(expected)
    finally:
        loader.terminate()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("mode, n_batches", [(SYNC, 20), (ASYNC, 20), (REBATCHED, 25)], ids=lambda value: getattr(value, "name", value))
def test_an_iterable_dataset_over_seven_workers_loses_less_when_rebatched(make, mode, n_batches, dtype):
    """101 samples, batch 4: each worker alone fills 6*3 + 2 batches; joined, their samples fill 25."""
    loader = make(Stream(101, dtype), mode=mode, batch_size=4, num_workers=7, worker_init_fn=lambda number: None)
    for _ in range(2):
        batches = _rows(loader)
        assert [len(batch) for batch in batches] == [4] * n_batches
        assert len(set(sum(batches, []))) == 4 * n_batches
    # torch's estimate, which does not know what workers lose
    assert len(loader) == 25


@pytest.mark.parametrize("mode", list(DataLoaderMode), ids=lambda mode: mode.name)
def test_an_indexed_dataset_over_workers_loses_only_the_incomplete_batch(make, mode):
    loader = make(Indexed(101), mode=mode, batch_size=4, num_workers=3)
    assert len(loader) == 25
    for _ in range(2):
        assert sum(_rows(loader), []) == list(range(100))


@pytest.mark.parametrize("kind", [Indexed, Stream])
def test_leftovers_of_all_workers_come_as_one_short_batch(make, kind):
    loader = make(kind(101), mode=REBATCHED, batch_size=6, drop_last=False, num_workers=3, worker_init_fn=lambda number: None)
    assert len(loader) == 17
    for _ in range(2):
        batches = _rows(loader)
        assert [len(batch) for batch in batches] == [6] * 16 + [5]
        assert sorted(sum(batches, [])) == list(range(101))


def test_a_loop_that_was_left_starts_anew_also_with_workers_that_stay(make):
    loader = make(Indexed(10), batch_size=2, num_workers=1)
    for number, batch in enumerate(loader):
        assert int(batch[0, 0, 0]) == 2 * number
        if number == 2:
            break
    assert sum(_rows(loader), []) == list(range(10))


def test_dictionaries_and_several_tensors(make):
    class Labelled(Indexed):
        def __getitem__(self, index):
            return {"data": super().__getitem__(index), "label": torch.tensor([index])}

    options = Options().deviceIterations(2).replicationFactor(3)
    for mode in (ASYNC, REBATCHED):
        labels = []
        for batch in make(Labelled(20), options, mode=mode):
            assert batch["data"].shape == (6, 2, 3) and list(batch) == ["data", "label"]
            labels.append(batch["label"].flatten().tolist())
        assert labels == [list(range(start, start + 6)) for start in (0, 6, 12)]


def test_batch_size_none_passes_items_through(make):
    for mode in (ASYNC, REBATCHED):
        loader = make(Stream(3), mode=mode, batch_size=None, drop_last=False)
        assert [item.shape for item in loader] == [(2, 3)] * 3
        assert len(loader) == 3


def test_samplers_are_kept(make):
    loader = make(_numbers(10), batch_size=2, sampler=[9, 1, 8, 2, 7])
    assert _pass(loader) == [[9, 1], [8, 2]]


def test_shuffling_by_a_generator_equals_that_of_a_synchronous_loader(make):
    orders = []
    for mode in (SYNC, ASYNC):
        loader = make(_numbers(20), mode=mode, batch_size=5, shuffle=True, generator=torch.Generator().manual_seed(7))
        orders.append([sum(_pass(loader), []) for _ in range(2)])
    assert orders[0] == orders[1] and orders[0][0] != orders[0][1]


def test_shuffling_follows_the_programs_seed(make):
    orders = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        orders.append(sum(_pass(make(_numbers(30), batch_size=5, shuffle=True)), []))
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == list(range(30))


def test_a_batch_sampler_gives_micro_batches(make):
    batches = BatchSampler(range(14), 2, False)
    options = Options().deviceIterations(3)
    loader = make(_numbers(14), options, batch_sampler=batches)
    assert _pass(loader) == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    rebatched = make(_numbers(14), options, mode=REBATCHED, batch_sampler=batches, drop_last=False)
    assert _pass(rebatched) == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11], [12, 13]]
    assert (len(loader), len(rebatched)) == (2, 3)


def test_a_batch_sampler_of_uneven_batches_is_rebatched_to_even_ones(make):
    class Uneven(list):
        batch_size = 2

    loader = make(_numbers(9), Options().deviceIterations(2), mode=REBATCHED, batch_sampler=Uneven([[0, 1], [2], [3, 4, 5], [6, 7], [8]]))
    assert _pass(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("shuffle", [False, True])
def test_processes_share_a_dataset(make, shuffle):
    passes = []
    for number in range(3):
        options = Options().randomSeed(42)
        options.Distributed.configureProcessId(number, 3)
        loader = make(_numbers(100), options, batch_size=4, shuffle=shuffle)
        passes.append([sum(_pass(loader), []) for _ in range(2)])
        assert len(loader) == 8
    for epoch in range(2):
        together = sum((part[epoch] for part in passes), [])
        assert len(set(together)) == len(together) == 96
        assert shuffle or together == list(range(96))
    if shuffle:
        assert {index for part in passes for epoch in part for index in epoch} == set(range(100))


def test_drop_last_needs_rebatching(make):
    with pytest.raises(AssertionError, match=r"batches of 4 rows.*'drop_last=False' option only works with 'rebatched_size'"):
        make(_numbers(10), batch_size=4, drop_last=False)
    assert _pass(make(_numbers(3), batch_size=1, drop_last=False)) == [[0], [1], [2]]


def test_an_accessor_of_ones_own_around_a_synchronous_loader(make):
    loader = make(_numbers(10), Options().deviceIterations(2), mode=SYNC, batch_size=2)
    with AsynchronousDataAccessor(loader, **FORK) as accessor:
        assert len(accessor) == 2
        assert _pass(accessor) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    keeps_all = make(_numbers(10), mode=SYNC, batch_size=3, drop_last=False)
    with AsynchronousDataAccessor(keeps_all, rebatched_size=4, **FORK) as accessor:
        assert _pass(accessor) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert len(accessor) == 3


def test_an_asynchronous_loader_takes_no_second_accessor(make):
    with pytest.raises(Error, match="already has an AsynchronousDataAccessor of its own"):
        AsynchronousDataAccessor(make(_numbers(10)), **FORK)


def test_a_dataset_too_small_for_one_host_batch_is_an_error(make):
    with pytest.raises(Error, match="failed to start .* The dataset is empty"):
        make(_numbers(3), batch_size=4)


class Broken(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index >= 4:
            raise LookupError("no such file: cat.png")
        return torch.tensor(index)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_what_the_dataset_raises_reaches_the_program(make, num_workers):
    loader = make(Broken(), batch_size=2, num_workers=num_workers, mode=ASYNC)
    batches = []
    with pytest.raises(Error, match="dataset raised LookupError: no such file: cat.png in the worker") as caught:
        for batch in loader:
            batches.append(batch.tolist())
    assert batches == [[0, 1], [2, 3]]
    assert isinstance(caught.value.__cause__, LookupError)


def test_a_loader_ends_its_worker_when_it_is_collected():
    loader = DataLoader(Options(), _numbers(10), mode=ASYNC, async_options=FORK)
    next(iter(loader))
    del loader
    assert not multiprocessing.active_children()


def test_a_terminated_loader_says_so(make):
    loader = make(_numbers(4))
    loader.terminate()
    with pytest.raises(Error, match="was terminated"):
        iter(loader)


@pytest.mark.parametrize("strategy", list(SharingStrategy), ids=lambda strategy: strategy.name)
def test_every_sharing_strategy_hands_over_the_dataset_and_the_random_generator(make, strategy):
    orders = []
    for mode in (SYNC, REBATCHED):
        options = {"async_options": {"sharing_strategy": strategy}, "generator": torch.Generator().manual_seed(7)}
        orders.append(_pass(make(_numbers(8), mode=mode, batch_size=2, shuffle=True, num_workers=1, **options)))
    assert orders[0] == orders[1]


def test_options_need_not_be_picklable(make, monkeypatch):
    def refuse(self, protocol):
        raise TypeError("options were pickled")

    monkeypatch.setattr(Options, "__reduce_ex__", refuse)
    loader = make(_numbers(4), batch_size=2)
    assert len(pickle.dumps(loader._for_worker())) > 0
