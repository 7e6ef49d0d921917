"""poptorch.DataLoader in the program's own process: batching arithmetic, samplers, partitions, arguments."""

import copy
import logging

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, Dataset, IterableDataset, SequentialSampler, TensorDataset, get_worker_info

from softipu.errors import Error
from softipu.poptorch.data.dataloader import DataLoader
from softipu.poptorch.enums import CommGroupType, DataLoaderMode
from softipu.poptorch.options import Options


def _options(device_iterations=1, accumulation=1, replicas=1, group=1):
    options = Options().deviceIterations(device_iterations).replicationFactor(replicas)
    options.Training.gradientAccumulation(accumulation)
    if group > 1:
        options.inputReplicaGrouping(group, CommGroupType.Consecutive)
    return options


def _numbers(n_samples):
    return TensorDataset(torch.arange(n_samples))


def _rows(loader):
    return [batch[0].tolist() for batch in loader]


class Stream(IterableDataset):
    """Numbers, shared out to torch's workers in consecutive blocks."""

    def __init__(self, n_samples):
        self.n_samples = n_samples

    def __iter__(self):
        info = get_worker_info()
        if info is None:
            return iter(range(self.n_samples))
        block = -(-self.n_samples // info.num_workers)
        return iter(range(block * info.id, min(block * (info.id + 1), self.n_samples)))


class SizedStream(Stream):
    def __len__(self):
        return self.n_samples


@given(
    n=st.integers(0, 200),
    batch_size=st.integers(1, 4),
    device_iterations=st.integers(1, 3),
    accumulation=st.integers(1, 3),
    groups=st.integers(1, 3),
    group=st.integers(1, 2),
    drop_last=st.booleans(),
)
def test_host_batches_are_consecutive_and_complete(n, batch_size, device_iterations, accumulation, groups, group, drop_last):
    options = _options(device_iterations, accumulation, groups * group, group)
    loader = DataLoader(options, _numbers(n), batch_size=batch_size, drop_last=drop_last)
    combined = batch_size * device_iterations * accumulation * groups
    expected = [list(range(start, min(start + combined, n))) for start in range(0, n, combined)]
    if drop_last:
        expected = [batch for batch in expected if len(batch) == combined]

    assert loader.combinedBatchSize == combined
    assert len(loader) == len(expected)
    assert _rows(loader) == expected


@pytest.mark.parametrize(
    "batch_size, options, combined",
    [(2, (100, 1, 4), 800), (4, (2, 8, 2), 128), (1, (1, 1, 4, 2), 2)],
)
def test_combined_batch_size_of_the_documented_examples(batch_size, options, combined):
    assert DataLoader(_options(*options), _numbers(combined), batch_size=batch_size).combinedBatchSize == combined


@given(n=st.integers(0, 60), batch_size=st.integers(1, 3), device_iterations=st.integers(1, 4), drop_last=st.booleans())
def test_an_iterable_dataset_is_batched_alike(n, batch_size, device_iterations, drop_last):
    map_style = DataLoader(_options(device_iterations), _numbers(n), batch_size=batch_size, drop_last=drop_last)
    stream = DataLoader(_options(device_iterations), SizedStream(n), batch_size=batch_size, drop_last=drop_last)
    assert [batch.tolist() for batch in stream] == _rows(map_style)
    assert len(stream) == len(map_style)


def test_shuffling_visits_every_sample_once_and_differs_between_epochs():
    loader = DataLoader(_options(2), _numbers(100), batch_size=5, shuffle=True)
    first, second = (sum(_rows(loader), []) for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second


def test_batch_size_none_passes_items_through():
    loader = DataLoader(_options(4), Stream(3), batch_size=None, drop_last=False)
    assert list(loader) == [0, 1, 2]
    assert loader.combinedBatchSize is None


def test_options_are_kept_and_frozen():
    options = _options()
    loader = DataLoader(options, _numbers(4))
    assert loader.options is options
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        options.deviceIterations(2)


def test_batches_are_whatever_the_collate_function_makes():
    class Batch:
        def __init__(self, samples):
            self.samples = samples

    loader = DataLoader(_options(2), [3, 1, 4, 1], batch_size=2, collate_fn=Batch)
    assert [batch.samples for batch in loader] == [[3, 1, 4, 1]]


def test_everything_torchs_loader_takes_is_kept():
    kept = {
        "collate_fn": list,
        "pin_memory": False,
        "timeout": 9,
        "worker_init_fn": print,
        "multiprocessing_context": "fork",
        "generator": torch.Generator(),
        "prefetch_factor": 3,
    }
    loader = DataLoader(_options(), _numbers(4), num_workers=2, sampler=[3, 1], **kept)
    for name, value in kept.items():
        given = getattr(loader, name)
        assert given == value or name == "multiprocessing_context" and given.get_start_method() == "fork"
    assert (loader.num_workers, loader.persistent_workers, loader.sampler) == (2, True, [3, 1])
    assert DataLoader(_options(), _numbers(4), num_workers=2, persistent_workers=False).persistent_workers is False
    assert DataLoader(_options(), _numbers(4)).persistent_workers is False


def test_a_sampler_decides_the_order_and_the_length():
    loader = DataLoader(_options(2), _numbers(10), batch_size=2, sampler=[9, 7, 5, 3, 1], drop_last=False)
    assert _rows(loader) == [[9, 7, 5, 3], [1]]
    assert len(loader) == 2


def test_a_dataset_is_asked_for_all_samples_of_a_host_batch_at_once():
    class Asked(Dataset):
        def __init__(self):
            self.asked = []

        def __len__(self):
            return 12

        def __getitems__(self, indices):
            self.asked.append(list(indices))
            return [torch.tensor(index) for index in indices]

    dataset = Asked()
    list(DataLoader(_options(3), dataset, batch_size=2))
    assert dataset.asked == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]


def test_a_batch_is_collated_once(monkeypatch):
    calls = []
    original = torch.stack

    def counted(tensors, *args, **kwargs):
        calls.append(len(tensors))
        return original(tensors, *args, **kwargs)

    monkeypatch.setattr(torch, "stack", counted)
    list(DataLoader(_options(3, 2), list(torch.zeros(24, 5)), batch_size=2))
    assert calls == [12, 12]


def test_a_batch_sampler_gives_micro_batches():
    loader = DataLoader(_options(3), _numbers(14), batch_sampler=BatchSampler(range(14), 2, False))
    assert _rows(loader) == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    assert (len(loader), loader.combinedBatchSize) == (2, 6)
    lists = DataLoader(_options(2), _numbers(6), batch_sampler=[[5, 0], [1, 4], [2]], drop_last=False)
    assert _rows(lists) == [[5, 0, 1, 4], [2]]
    assert (len(lists), lists.combinedBatchSize) == (2, None)


@pytest.mark.parametrize("arguments", [{"batch_size": 2}, {"shuffle": True}])
def test_a_batch_sampler_excludes_what_it_decides(arguments):
    with pytest.raises(Error, match="batch_sampler decides the size and the order"):
        DataLoader(_options(), _numbers(4), batch_sampler=[[0]], **arguments)


def test_torchs_own_checks_apply():
    with pytest.raises(ValueError, match="mutually exclusive"):
        DataLoader(_options(), _numbers(4), sampler=[0], shuffle=True)
    with pytest.raises(ValueError, match="mutually exclusive"):
        DataLoader(_options(), _numbers(4), sampler=[0], batch_sampler=[[0]])
    with pytest.raises(ValueError, match="persistent_workers option needs num_workers > 0"):
        DataLoader(_options(), _numbers(4), persistent_workers=True)
    with pytest.raises(ValueError, match="IterableDataset"):
        DataLoader(_options(), Stream(4), shuffle=True)
    with pytest.raises(TypeError, match="'Stream' has no len()"):
        len(DataLoader(_options(), Stream(4)))


def test_options_of_another_type_are_refused():
    with pytest.raises(AssertionError, match="options must be poptorch.Options, given dict"):
        DataLoader({}, _numbers(4))


def test_a_synchronous_loader_can_be_copied_and_needs_no_terminate():
    loader = DataLoader(_options(2), _numbers(8), batch_size=2)
    loader.terminate()
    assert _rows(copy.copy(loader)) == _rows(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def _distributed(n_processes, process_id, seed=None, device_iterations=1):
    options = _options(device_iterations)
    options.Distributed.configureProcessId(process_id, n_processes)
    return options if seed is None else options.randomSeed(seed)


@given(n=st.integers(1, 100), batch_size=st.integers(1, 4), device_iterations=st.integers(1, 3), n_processes=st.integers(2, 4))
def test_processes_share_a_dataset(n, batch_size, device_iterations, n_processes):
    combined = batch_size * device_iterations
    assume(n >= combined * n_processes)
    loaders = [
        DataLoader(_distributed(n_processes, number, device_iterations=device_iterations), _numbers(n), batch_size=batch_size)
        for number in range(n_processes)
    ]
    rows = [sum(_rows(loader), []) for loader in loaders]
    n_used = n // (combined * n_processes) * combined * n_processes
    assert sum(rows, []) == list(range(n_used))
    assert {len(loader) for loader in loaders} == {n_used // n_processes // combined}


def test_processes_shuffle_alike():
    loaders = [DataLoader(_distributed(3, number, seed=42), _numbers(100), batch_size=4, shuffle=True) for number in range(3)]
    seen = [set(sum((sum(_rows(loader), []) for loader in loaders), [])) for _ in range(2)]
    assert len(seen[0]) == len(seen[1]) == 96
    assert seen[0] | seen[1] == set(range(100))


def test_without_automatic_partitioning_every_process_reads_everything():
    loader = DataLoader(_distributed(2, 1), _numbers(4), batch_size=2, auto_distributed_partitioning=False)
    assert _rows(loader) == [[0, 1], [2, 3]]
    stream = DataLoader(_distributed(2, 1), Stream(4), batch_size=4, auto_distributed_partitioning=False)
    assert [batch.tolist() for batch in stream] == [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    "dataset, arguments, kind, message",
    [
        (_numbers(8), {"shuffle": True}, AssertionError, r"you must set poptorch.Options.randomSeed\(\), to the same value in all 2"),
        (Stream(8), {}, AssertionError, r"not supported for an IterableDataset, and there are 2 processes"),
        (_numbers(8), {"batch_size": None, "drop_last": False}, AssertionError, r"batch_size=None is not allowed with auto_distributed"),
        (_numbers(8), {"sampler": [0]}, Error, r"A sampler cannot be combined .* pass auto_distributed_partitioning=False"),
        (_numbers(8), {"batch_sampler": [[0]]}, Error, r"batch_sampler cannot be combined with the automatic partitioning"),
        (_numbers(8), {"batch_size": 5}, Error, r"has 8 elements, fewer than one step of 5 for each of 2 processes"),
    ],
)
def test_what_cannot_be_partitioned_is_refused(dataset, arguments, kind, message):
    with pytest.raises(kind, match=message):
        DataLoader(_distributed(2, 0), dataset, **arguments)


@pytest.mark.parametrize(
    "arguments, kind, message",
    [
        ({"batch_size": 4, "rebatched_worker_size": 5}, AssertionError, r"rebatched_worker_size \(5\) .* combined batch size \(4\)"),
        (
            {"batch_size": None, "drop_last": False, "rebatched_worker_size": 5},
            AssertionError,
            r"needs a batch size, but batch_size is None",
        ),
        ({"batch_sampler": [[0]]}, AssertionError, r"the batch_sampler does not tell its batch size"),
        (
            {"batch_sampler": BatchSampler(range(8), 2, False), "rebatched_worker_size": 1},
            AssertionError,
            r"rebatched_worker_size cannot be combined with batch_sampler",
        ),
        ({"batch_size": 4, "async_options": {"rebatched_size": 4}}, AssertionError, r"async_options cannot set rebatched_size"),
    ],
)
def test_what_cannot_be_rebatched_is_refused(arguments, kind, message):
    with pytest.raises(kind, match=message):
        DataLoader(_options(), _numbers(8), mode=DataLoaderMode.AsyncRebatched, **arguments)


@pytest.fixture
def warnings_of(caplog):
    def of(*arguments, **keywords):
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="poptorch::python"):
            DataLoader(*arguments, **keywords)
        return [record.getMessage() for record in caplog.records]

    return of


def test_an_incomplete_last_batch_is_warned_of(warnings_of):
    (message,) = warnings_of(_options(3), _numbers(20), batch_size=2, drop_last=False)
    assert "(20) is not divisible by the number of elements of one step (6)" in message
    assert "the last batch has 2 elements, and a model compiled for 6 refuses it" in message
    assert warnings_of(_options(3), _numbers(18), batch_size=2, drop_last=False) == []
    assert warnings_of(_options(3), _numbers(20), batch_size=2) == []


def test_a_dataset_without_a_single_host_batch_is_warned_of(warnings_of):
    (message,) = warnings_of(_options(3), _numbers(5), batch_size=2)
    assert "The DataLoader is empty: the dataset has 5 elements, one step needs 6" in message


def test_workers_that_would_repeat_an_iterable_dataset_are_warned_of(warnings_of):
    (message,) = warnings_of(_options(), Stream(5), num_workers=2)
    assert "num_workers=2 but no worker_init_fn" in message and "each of its elements 2 times" in message
    assert warnings_of(_options(), Stream(5), num_workers=2, worker_init_fn=print) == []
    assert warnings_of(_options(), Stream(5), num_workers=1) == []


def test_lightning_can_make_the_loader_again_for_predictions():
    """As its data connector does: the batch sampler's type anew around a sampler, inside a wrapper, with torch's other arguments."""

    class IndexBatchSamplerWrapper:
        def __init__(self, batch_sampler):
            self.__dict__ = dict(batch_sampler.__dict__)
            self._batch_sampler = batch_sampler

        def __iter__(self):
            return iter(self._batch_sampler)

        def __len__(self):
            return len(self._batch_sampler)

    loader = DataLoader(_options(3), _numbers(14), batch_size=2)
    remade = type(loader.batch_sampler)(SequentialSampler(loader.dataset), batch_size=loader.batch_sampler.batch_size, drop_last=False)
    again = DataLoader(
        loader.options, loader.dataset, batch_sampler=IndexBatchSamplerWrapper(remade), shuffle=False, sampler=None, drop_last=False
    )
    assert _rows(again) == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11], [12, 13]]
    assert again.combinedBatchSize == 6
