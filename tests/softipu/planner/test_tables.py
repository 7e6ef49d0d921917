from hypothesis import given
from hypothesis import strategies as st

from softipu.planner.tables import Largest, Running, StageSums

N = 7
stages = [(begin, end) for begin in range(N) for end in range(begin + 1, N + 1)]
tensors = st.lists(st.tuples(st.integers(1, 9), st.integers(-1, N - 1), st.lists(st.integers(0, N - 1), max_size=3)), max_size=5)


@given(tensors)
def test_what_a_stage_makes_and_reads_itself(given_tensors):
    sums = StageSums(N)
    used = [(size, maker, sorted(readers)) for size, maker, readers in given_tensors if maker >= 0 and readers and min(readers) >= maker]
    for size, maker, readers in used:
        sums.add_made_and_read(size, maker, readers[0])
    for begin, end in stages:
        expected = sum(size for size, maker, readers in used if begin <= maker < end and any(begin <= r < end for r in readers))
        assert sums.of(begin, end) == expected


@given(tensors)
def test_what_a_stage_reads_of_others(given_tensors):
    sums = StageSums(N)
    for size, maker, readers in given_tensors:
        sums.add_read_from_outside(size, maker, sorted(set(readers)))
    for begin, end in stages:
        expected = sum(size for size, maker, readers in given_tensors if maker < begin and any(begin <= r < end for r in readers))
        assert sums.of(begin, end) == expected


@given(tensors)
def test_what_a_stage_reads_of_later_ones(given_tensors):
    sums = StageSums(N)
    for size, maker, readers in given_tensors:
        sums.add_read_from_behind(size, maker, sorted(set(readers)))
    for begin, end in stages:
        expected = sum(size for size, maker, readers in given_tensors if maker >= end and any(begin <= r < end for r in readers))
        assert sums.of(begin, end) == expected


@given(st.lists(st.integers(0, 99), min_size=N, max_size=N))
def test_sums_and_maxima_of_neighbours(values):
    running, largest = Running(values), Largest(values)
    for begin, end in stages:
        assert running.of(begin, end) == sum(values[begin:end])
        assert largest.of(begin, end) == max(values[begin:end])
    assert largest.of(3, 3) == running.of(3, 3) == 0
