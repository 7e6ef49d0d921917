"""Which samples each of several processes reads."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from softipu.poptorch.data.distributed_partition import DistributedPartition

SIZES = {"step": st.integers(1, 6), "n_processes": st.integers(1, 5), "n_steps": st.integers(1, 4), "rest": st.integers(0, 29)}


def _parts(n_samples, step, n_processes, **options):
    return [DistributedPartition(n_samples, step, process_id, n_processes, **options) for process_id in range(n_processes)]


@given(**SIZES)
def test_whole_steps_are_consecutive_parts_of_equal_length(step, n_processes, n_steps, rest):
    n_samples = step * n_processes * n_steps + rest % (step * n_processes)
    parts = [list(part) for part in _parts(n_samples, step, n_processes, drop_last=True, seed=None)]
    assert [len(part) for part in parts] == [step * n_steps] * n_processes
    assert sum(parts, []) == list(range(step * n_processes * n_steps))


@given(n_samples=st.integers(0, 50), step=st.integers(1, 6), n_processes=st.integers(1, 5), seed=st.one_of(st.none(), st.integers(0, 9)))
def test_without_dropping_every_sample_belongs_to_one_process(n_samples, step, n_processes, seed):
    parts = _parts(n_samples, step, n_processes, drop_last=False, seed=seed)
    indices = [list(part) for part in parts]
    assert [len(part) for part in parts] == [len(part) for part in indices]
    assert max(map(len, indices)) - min(map(len, indices)) <= 1
    assert sorted(sum(indices, [])) == list(range(n_samples))


@given(seed=st.integers(0, 2**31), n_epochs=st.integers(2, 4), **SIZES)
def test_shuffled_parts_never_overlap_and_two_epochs_read_everything(step, n_processes, n_steps, rest, seed, n_epochs):
    n_samples = step * n_processes * n_steps + rest % (step * n_processes)
    parts = _parts(n_samples, step, n_processes, drop_last=True, seed=seed)
    epochs = []
    for _ in range(n_epochs):
        # Each process draws the order by itself, so this also says that all draw the same one.
        indices = sum((list(part) for part in parts), [])
        assert len(set(indices)) == len(indices) == step * n_processes * n_steps
        epochs.append(set(indices))
    for before, after in zip(epochs, epochs[1:]):
        assert before | after == set(range(n_samples))


def test_epochs_are_shuffled_differently_and_repeatably():
    def epochs():
        part = DistributedPartition(1000, 10, 0, 2, drop_last=True, seed=3)
        return [list(part) for _ in range(3)]

    first, second, third = epochs()
    assert first != second != third != first
    assert epochs() == [first, second, third]


def test_samples_are_left_over_equally_often():
    part = DistributedPartition(12, 5, 0, 1, drop_last=True, seed=0)
    counts = [0] * 12
    for _ in range(3000):
        for index in set(range(12)) - set(part):
            counts[index] += 1
    # 2 of 12 per epoch: 500 each; the standard deviation of a count is below 20.
    assert all(400 < count < 600 for count in counts)


def test_a_part_can_be_pickled_between_epochs():
    part = DistributedPartition(20, 3, 1, 2, drop_last=True, seed=1)
    list(part)
    copied = pickle.loads(pickle.dumps(part))
    assert list(copied) == list(part)
