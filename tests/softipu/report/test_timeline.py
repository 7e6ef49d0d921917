"""The pipeline's schedule: what every micro-batch needs, and no IPU in two places at once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softipu.report.plan import Plan, Schedule, Stage
from softipu.report.timeline import Timeline
from tests.softipu.report.sample_report import cost, stage_time


def timeline_of(n_stages, n_micro, *, training=True, schedule=Schedule.PIPELINED, ipus=None, waiting=0.0):
    ipus = ipus or list(range(n_stages))
    times = tuple(replace(stage_time(i % 4), stage=i, ipu=ipu) for i, ipu in enumerate(ipus))
    if not training:
        times = tuple(replace(s, backward={}, recompute_seconds=0.0) for s in times)
    stages = tuple(Stage("" if i == 0 else f"part.{i}", ipu) for i, ipu in enumerate(ipus))
    plan = Plan(stages=stages, gradient_accumulation=n_micro, schedule=schedule)
    if not training:
        plan = replace(plan, gradient_accumulation=1, device_iterations=n_micro)
    busiest = max(sum(t.seconds for t in times if t.ipu == ipu) for ipu in ipus)
    report = cost()
    time = replace(report.time, cycle_seconds=busiest + waiting)
    return Timeline(replace(report, plan=plan, stages=times, training=training, time=time))


def every_slice(timeline):
    return [part for i in range(timeline.n_cycles) for part in timeline.cycle(i).slices]


@given(st.integers(1, 5), st.integers(1, 12), st.booleans())
def test_every_micro_batch_goes_once_through_every_stage_in_order(n_stages, n_micro, training):
    found = every_slice(timeline_of(n_stages, n_micro, training=training))
    for direction in ("forward", "backward") if training else ("forward",):
        done = [(part.stage, part.micro_batch) for part in found if part.direction == direction]
        assert sorted(done) == [(s, m) for s in range(n_stages) for m in range(n_micro)]
    for m in range(n_micro):
        starts = [p.start for p in sorted((p for p in found if p.micro_batch == m and p.direction == "forward"), key=lambda p: p.stage)]
        assert starts == sorted(starts)
        if training:
            backward = sorted((p for p in found if p.micro_batch == m and p.direction == "backward"), key=lambda p: -p.stage)
            assert [p.start for p in backward] == sorted(p.start for p in backward)
            assert backward[0].start >= starts[-1]


@given(st.integers(1, 5), st.integers(1, 12))
def test_no_ipu_does_two_things_at_once(n_stages, n_micro):
    found = every_slice(timeline_of(n_stages, n_micro))
    for ipu in range(n_stages):
        own = sorted((p for p in found if p.ipu == ipu), key=lambda p: p.start)
        for before, after in zip(own, own[1:]):
            assert before.start + before.seconds <= after.start + 1e-12


@given(st.integers(1, 5), st.integers(1, 12), st.booleans(), st.sampled_from([0.0, 0.003]))
def test_cycles_follow_each_other_and_hold_their_work(n_stages, n_micro, training, waiting):
    timeline = timeline_of(n_stages, n_micro, training=training, waiting=waiting)
    at = 0.0
    for i in range(timeline.n_cycles):
        turn = timeline.cycle(i)
        assert turn.start == pytest.approx(at)
        assert all(turn.start <= p.start and p.start + p.seconds + waiting <= turn.start + turn.seconds + 1e-12 for p in turn.slices)
        assert turn.seconds == pytest.approx(max(p.start + p.seconds for p in turn.slices) - turn.start + waiting)
        at += turn.seconds


def test_activations_wait_for_twice_the_stages_to_the_end():
    timeline = timeline_of(4, 20)
    when = {}
    for i in range(timeline.n_cycles):
        for part in timeline.cycle(i).slices:
            when.setdefault((part.stage, part.micro_batch, part.direction), i)
    waits = [when[s, 7, "backward"] - when[s, 7, "forward"] for s in range(4)]
    assert waits == [6, 4, 2, 0]


def test_training_pipeline_has_ramps_on_both_sides():
    timeline = timeline_of(4, 20)
    parts = [timeline.cycle(i).part for i in range(timeline.n_cycles)]
    assert parts == ["ramp up"] * 6 + ["steady"] * 14 + ["ramp down"] * 6


def test_steady_cycles_are_the_longest():
    timeline = timeline_of(4, 20)
    lengths = [timeline.cycle(i).seconds for i in range(timeline.n_cycles)]
    assert max(lengths) == pytest.approx(timeline.report.time.cycle_seconds)
    assert lengths[6:20] == [pytest.approx(max(lengths))] * 14
    assert lengths[0] < max(lengths) and lengths[-1] < max(lengths)


def test_inference_fills_in_half_the_cycles():
    assert timeline_of(4, 20, training=False).n_cycles == 23
    assert timeline_of(4, 20).n_cycles == 26


def test_a_tied_head_shares_the_first_ipu():
    last = [p for p in timeline_of(3, 5, ipus=[0, 1, 0]).cycle(4).slices if p.ipu == 0]
    assert [(p.stage, p.direction) for p in last if p.direction != "recompute"] == [
        (0, "forward"),
        (2, "forward"),
        (2, "backward"),
        (0, "backward"),
    ]


def test_the_sharded_schedule_runs_one_stage_after_another():
    timeline = timeline_of(3, 2, schedule=Schedule.SHARDED)
    assert timeline.n_cycles == 2
    slices = timeline.cycle(1).slices
    assert [p.stage for p in slices if p.direction == "forward"] == [0, 1, 2]
    for before, after in zip(slices, slices[1:]):
        assert before.start + before.seconds == pytest.approx(after.start)
    assert timeline.cycle(1).start == pytest.approx(sum(s.seconds for s in timeline.report.stages))


def test_long_updates_are_cut_in_the_middle():
    timeline = timeline_of(4, 2000)
    shown, left_out = timeline.shown(20)
    assert len(shown) == 20 and len(shown) + left_out == timeline.n_cycles
    assert shown[0].index == 0 and shown[-1].index == timeline.n_cycles - 1
    short = timeline_of(2, 3)
    assert short.shown(20) == ([short.cycle(i) for i in range(5)], 0)
