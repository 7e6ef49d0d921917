"""AsynchronousDataAccessor: passes over a dataset, early exits, buffers, errors. Workers are forked, which takes milliseconds."""

import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softipu.errors import Error
from softipu.poptorch.data.async_data import AsynchronousDataAccessor
from softipu.poptorch.enums import SharingStrategy


def _accessor(dataset, **options):
    return AsynchronousDataAccessor(dataset, sharing_strategy=SharingStrategy.Fork, **options)


class Numbered:
    """Any iterable will do. Each pass marks its items, so that the items of an abandoned one would be noticed."""

    def __init__(self, n_items):
        self.n_items = n_items
        self.n_passes = 0

    def __len__(self):
        return self.n_items

    def __iter__(self):
        self.n_passes += 1
        for index in range(self.n_items):
            yield torch.tensor([self.n_passes, index])


class Indexed(torch.utils.data.Dataset):
    """Takes every index, so only its length tells where it ends."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.tensor(index)


class Broken:
    def __init__(self, n_good):
        self.n_good = n_good

    def __iter__(self):
        for index in range(self.n_good):
            yield torch.tensor(index)
        raise LookupError("no such file: cat.png")


@given(
    n_items=st.integers(1, 6),
    buffer_size=st.integers(1, 4),
    load_indefinitely=st.booleans(),
    early_preload=st.booleans(),
    n_taken=st.lists(st.integers(0, 8), min_size=1, max_size=5),
)
@settings(max_examples=25)
def test_every_pass_starts_at_the_first_item_wherever_the_last_one_was_left(
    n_items, buffer_size, load_indefinitely, early_preload, n_taken
):
    options = {"buffer_size": buffer_size, "load_indefinitely": load_indefinitely, "early_preload": early_preload}
    with _accessor(Numbered(n_items), **options) as accessor:
        marks = []
        for n_wanted in n_taken:
            items = []
            iterator = iter(accessor)
            for _ in range(min(n_wanted, n_items)):
                mark, index = next(iterator).tolist()
                items.append(index)
                marks.append(mark)
            assert items == list(range(len(items)))
            if n_wanted > n_items:
                with pytest.raises(StopIteration):
                    next(iterator)
        # Passes are never mixed and never repeated.
        assert marks == sorted(marks)


def test_a_pass_that_was_not_used_is_not_started_anew():
    with _accessor(Numbered(3)) as accessor:
        iter(accessor)
        iter(accessor)
        assert next(accessor).tolist() == [1, 0]


def test_items_can_be_taken_without_an_iterator():
    with _accessor(Numbered(2)) as accessor:
        assert [next(accessor).tolist(), next(accessor).tolist()] == [[1, 0], [1, 1]]
        for _ in range(2):
            with pytest.raises(StopIteration):
                next(accessor)
        assert [item.tolist() for item in accessor] == [[2, 0], [2, 1]]


def test_a_generator_can_be_read_once():
    with _accessor(torch.tensor(index) for index in range(5)) as accessor:
        assert [int(item) for item in accessor] == [0, 1, 2, 3, 4]
        assert [int(item) for item in accessor] == []
        assert [int(item) for item in accessor] == []


def test_a_dataset_with_indices_only_ends_at_its_length():
    with _accessor(Indexed()) as accessor:
        assert len(accessor) == 4
        assert [int(item) for item in accessor] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "item", [torch.ones(2), (torch.ones(2), torch.zeros(3)), [torch.ones(2)], {"x": torch.ones(2), "y": torch.tensor(3)}], ids=str
)
def test_items_come_back_as_they_were(item):
    with _accessor([item] * 3) as accessor:
        for again in accessor:
            assert type(again) is type(item)
            assert str(again) == str(item)


def test_an_item_is_overwritten_only_after_the_next_one_is_taken():
    with _accessor(Numbered(5), buffer_size=1) as accessor:
        first = next(accessor)
        time.sleep(0.05)
        assert first.tolist() == [1, 0]
        next(accessor)
        assert first.tolist() == [1, 1], "one buffer: the first item's memory holds the second one now"


def test_what_the_program_does_to_an_item_does_not_stay_with_the_buffer():
    with _accessor([torch.ones(2)] * 4, buffer_size=1) as accessor:
        for item in accessor:
            assert not item.requires_grad
            item.requires_grad_()


def test_gradients_of_the_dataset_stay_behind():
    with _accessor([torch.ones(2, requires_grad=True)] * 2) as accessor:
        assert [item.requires_grad for item in accessor] == [False, False]


class Counting:
    """Tells the program how far the worker is, through shared memory."""

    def __init__(self):
        self.n_loaded = torch.zeros((), dtype=torch.int64).share_memory_()

    def __iter__(self):
        for index in range(100):
            self.n_loaded += 1
            yield torch.tensor(index)


def _settled(count, n_expected):
    """The count once it has reached what is expected, and had time to go past it."""
    deadline = time.monotonic() + 20
    while int(count) < n_expected and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    return int(count)


@pytest.mark.parametrize("early_preload, n_expected", [(False, 1), (True, 6)])
def test_early_preload_fills_the_ring_before_the_first_iterator(early_preload, n_expected):
    dataset = Counting()
    with _accessor(dataset, buffer_size=5, early_preload=early_preload) as accessor:
        # With a full ring the worker holds one more item, for which it waits to have room.
        assert _settled(dataset.n_loaded, n_expected) == n_expected
        iter(accessor)
        assert _settled(dataset.n_loaded, 6) == 6


class Passes:
    def __init__(self):
        self.n_started = torch.zeros((), dtype=torch.int64).share_memory_()

    def __iter__(self):
        self.n_started += 1
        return iter([torch.zeros(1)] * 2)


@pytest.mark.parametrize("load_indefinitely, n_expected", [(False, 1), (True, 2)])
def test_load_indefinitely_starts_one_pass_ahead(load_indefinitely, n_expected):
    dataset = Passes()
    with _accessor(dataset, buffer_size=8, load_indefinitely=load_indefinitely) as accessor:
        assert len(list(accessor)) == 2
        assert _settled(dataset.n_started, n_expected) == n_expected
        assert len(list(accessor)) == 2


def test_rebatching_joins_items_and_drops_the_rest():
    parts = torch.arange(10).split([3, 3, 3, 1])
    with _accessor(parts, rebatched_size=4) as accessor:
        for _ in range(2):
            assert [item.tolist() for item in accessor] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_rebatching_too_few_rows_gives_empty_passes():
    with _accessor([torch.arange(3)], rebatched_size=4) as accessor:
        assert [list(accessor), list(accessor)] == [[], []]


def test_length_of_rebatched_items_needs_their_batch_size():
    loader = torch.utils.data.DataLoader(torch.arange(10), batch_size=2)
    with _accessor(loader, rebatched_size=4) as accessor:
        assert len(accessor) == 2
    with _accessor([torch.arange(4)], rebatched_size=4) as accessor:
        with pytest.raises(TypeError, match=r"number of batches of 4 rows is unknown, because the dataset of type list"):
            len(accessor)
    with _accessor(torch.tensor(index) for index in range(5)) as accessor:
        with pytest.raises(TypeError, match="has no len()"):
            len(accessor)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"buffer_size": 0}, "buffer_size is 0; it must be a positive number"),
        ({"miss_sleep_time_in_ms": -1}, "miss_sleep_time_in_ms is -1; it cannot be negative"),
        ({"rebatched_size": 1}, "rebatched_size is 1; it must be None or greater than 1"),
    ],
)
def test_arguments_out_of_range_are_refused(options, message):
    with pytest.raises(AssertionError, match=message):
        _accessor([torch.zeros(1)], **options)


def test_a_dataset_that_fails_at_once_is_an_error_with_its_cause(capfd):
    message = r"worker thread failed to start \(Check above for details\): LookupError: no such file: cat.png"
    with pytest.raises(Error, match=message) as caught:
        _accessor(Broken(0))
    assert type(caught.value.__cause__) is LookupError
    assert "in __iter__" in str(caught.value.__cause__.__cause__)
    assert "LookupError: no such file: cat.png" in capfd.readouterr().err


def test_a_dataset_that_fails_later_gives_the_items_before_and_then_the_error(capfd):
    accessor = _accessor(Broken(3))
    items = []
    with pytest.raises(Error, match="dataset raised LookupError: no such file: cat.png in the worker") as caught:
        for item in accessor:
            items.append(int(item))
    assert items == [0, 1, 2]
    assert type(caught.value.__cause__) is LookupError
    assert capfd.readouterr().err == ""
    with pytest.raises(Error, match="was terminated, or its worker has failed. Make a new one"):
        next(accessor)


def test_an_empty_dataset_is_an_error():
    with pytest.raises(Error, match="worker thread failed to start .*The dataset is empty"):
        _accessor([])


@pytest.mark.parametrize(
    "items, message",
    [
        (
            [torch.zeros(2), torch.zeros(1)],
            r"float32 of shape \[1\], but that of the first item was torch.float32 of shape \[2\].*drop_last=True",
        ),
        ([torch.zeros(2), torch.zeros(2, dtype=torch.int64)], r"int64 of shape \[2\], but that of the first item was torch.float32"),
        ([torch.zeros(2), (torch.zeros(2),)], r"of type tuple, the first one was of type Tensor"),
    ],
)
def test_items_that_differ_from_the_first_one_are_refused(items, message):
    # A plain copy would broadcast the first and convert the second.
    with _accessor(items) as accessor, pytest.raises(Error) as caught:
        list(accessor)
    with pytest.raises((ValueError, AssertionError), match=message):
        raise caught.value.__cause__


def test_items_without_tensors_are_refused():
    with pytest.raises(Error, match="failed to start .* AssertionError: An item of the dataset is of type float"):
        _accessor([1.0])


def test_a_terminated_accessor_says_so():
    accessor = _accessor(Numbered(3))
    accessor.terminate()
    accessor.terminate()
    with pytest.raises(Error, match="was terminated"):
        iter(accessor)


def test_random_numbers_of_the_worker_follow_the_programs_seed():
    def drawn():
        torch.manual_seed(5)
        with _accessor(RandomItems()) as accessor:
            return [item.tolist() for item in accessor]

    assert drawn() == drawn()
    torch.manual_seed(5)
    with _accessor(RandomItems()) as first, _accessor(RandomItems()) as second:
        assert next(first).tolist() != next(second).tolist()


class RandomItems:
    def __iter__(self):
        return iter(torch.rand(3, 2))
