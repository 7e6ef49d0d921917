"""Pipeline cycles against a simulation, and by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softipu.cost.pipeline import StageSeconds, pipeline_time, stash_depth

seconds = st.floats(0.1, 10.0)


@pytest.mark.parametrize(("stage", "depth"), [(0, 7), (1, 5), (2, 3), (3, 1)])
def test_stash_holds_twice_the_stages_to_the_end_and_one(stage, depth):
    assert stash_depth(stage, 4) == depth


def test_equal_stages_take_the_micro_batches_and_two_ramps():
    stages = [StageSeconds(i, 1.0, 2.0) for i in range(4)]
    found = pipeline_time(stages, 10, training=True)
    assert found.n_cycles == 10 + 6
    assert found.steady_seconds == 3.0
    # Ramp up: 3 cycles of forward only, 3 in which the last stages run backward too; ramp down: 3 with forward, 3 of backward only.
    assert found.seconds == pytest.approx(3 * 1.0 + 3 * 3.0 + 4 * 3.0 + 3 * 3.0 + 3 * 2.0)


def test_two_stages_by_hand():
    # F: 1 and 2, B: 3 and 4; the last stage runs forward and backward in one cycle.
    found = pipeline_time([StageSeconds(0, 1.0, 3.0), StageSeconds(1, 2.0, 4.0)], 3, training=True)
    # cycle 0: F0; 1: F0, F1 + B1; 2: F0 + B0, F1 + B1; 3: B0, F1 + B1; 4: B0
    assert found.seconds == pytest.approx(1 + 6 + 6 + 6 + 3)


def test_inference_takes_the_micro_batches_and_one_ramp():
    found = pipeline_time([StageSeconds(i, 1.0, 0.0) for i in range(4)], 10, training=False)
    assert (found.n_cycles, found.seconds) == (13, pytest.approx(13.0))


def test_one_stage_has_no_ramp():
    found = pipeline_time([StageSeconds(0, 1.0, 2.0)], 5, training=True, overhead=0.5)
    assert found.seconds == pytest.approx(5 * 3.5)
    assert found.bubble_seconds(5) == pytest.approx(0.0)


@given(st.lists(st.tuples(seconds, seconds, st.integers(0, 2)), min_size=1, max_size=6), st.integers(1, 20))
def test_time_is_that_of_a_simulation(stages, n_micro_batches):
    made = [StageSeconds(ipu, forward, backward) for forward, backward, ipu in stages]
    n = len(made)
    total = 0.0
    for cycle in range(n_micro_batches + 2 * (n - 1)):
        busy = {}
        for s, stage in enumerate(made):
            for micro_batch, time in ((cycle - s, stage.forward), (cycle - 2 * (n - 1) + s, stage.backward)):
                if 0 <= micro_batch < n_micro_batches:
                    busy[stage.ipu] = busy.get(stage.ipu, 0.0) + time
        total += max(busy.values())
    assert pipeline_time(made, n_micro_batches, training=True).seconds == pytest.approx(total)


@given(st.lists(st.tuples(seconds, seconds), min_size=1, max_size=6), st.integers(1, 50))
def test_more_micro_batches_take_longer_and_waste_less(stages, n_micro_batches):
    made = [StageSeconds(i, f, b) for i, (f, b) in enumerate(stages)]
    few, many = (pipeline_time(made, n, training=True) for n in (n_micro_batches, n_micro_batches + 1))
    assert many.seconds > few.seconds
    assert many.seconds / (n_micro_batches + 1) <= few.seconds / n_micro_batches * (1 + 1e-9)
