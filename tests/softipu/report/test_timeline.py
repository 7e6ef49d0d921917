"""The pipeline's schedule: what every micro-batch needs, and no IPU in two places at once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softipu.report.plan import Plan, Schedule, Stage
from softipu.report.timeline import cycle, n_cycles, pipeline_depth, shown_cycles
from tests.softipu.report.sample_report import cost, stage_time


def report_of(n_stages, n_micro, *, training=True, schedule=Schedule.PIPELINED, ipus=None):
    ipus = ipus or list(range(n_stages))
    times = tuple(replace(stage_time(i % 4), stage=i, ipu=ipu) for i, ipu in enumerate(ipus))
    if not training:
        times = tuple(replace(s, backward={}, recompute_seconds=0.0) for s in times)
    stages = tuple(Stage("" if i == 0 else f"part.{i}", ipu) for i, ipu in enumerate(ipus))
    plan = Plan(stages=stages, gradient_accumulation=n_micro, schedule=schedule)
    busiest = max(sum(t.seconds for t in times if t.ipu == ipu) for ipu in ipus)
    report = cost()
    return replace(report, plan=plan, stages=times, training=training, time=replace(report.time, cycle_seconds=busiest))


@given(st.integers(1, 5), st.integers(1, 12), st.booleans())
def test_every_micro_batch_goes_once_through_every_stage_in_order(n_stages, n_micro, training):
    report = report_of(n_stages, n_micro, training=training)
    found = [part for i in range(n_cycles(report)) for part in cycle(report, i).slices]
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
    report = report_of(n_stages, n_micro)
    for ipu in range(n_stages):
        own = sorted((p for i in range(n_cycles(report)) for p in cycle(report, i).slices if p.ipu == ipu), key=lambda p: p.start)
        for before, after in zip(own, own[1:]):
            assert before.start + before.seconds <= after.start + 1e-12


def test_work_stays_within_its_cycle():
    report = report_of(4, 12)
    for i in range(n_cycles(report)):
        turn = cycle(report, i)
        assert all(turn.start <= p.start and p.start + p.seconds <= turn.start + turn.seconds + 1e-12 for p in turn.slices)


def test_activations_wait_for_twice_the_stages_to_the_end():
    report = report_of(4, 20)
    when = {}
    for i in range(n_cycles(report)):
        for part in cycle(report, i).slices:
            when.setdefault((part.stage, part.micro_batch, part.direction), i)
    waits = [when[s, 7, "backward"] - when[s, 7, "forward"] for s in range(4)]
    assert waits == [6, 4, 2, 0]


def test_training_pipeline_has_ramps_on_both_sides():
    report = report_of(4, 20)
    parts = [cycle(report, i).part for i in range(n_cycles(report))]
    assert parts == ["ramp up"] * 6 + ["steady"] * 14 + ["ramp down"] * 6


def test_inference_fills_in_half_the_cycles():
    assert n_cycles(report_of(4, 20, training=False)) == 23
    assert n_cycles(report_of(4, 20)) == 26


def test_neighbouring_stages_on_one_ipu_are_one_step_of_the_pipeline():
    report = report_of(3, 5, ipus=[0, 0, 1])
    assert pipeline_depth(report) == 2
    assert n_cycles(report) == 7


def test_a_tied_head_shares_the_first_ipu():
    report = report_of(3, 5, ipus=[0, 1, 0])
    last = [p for p in cycle(report, 4).slices if p.ipu == 0]
    assert [(p.stage, p.direction) for p in last if p.direction != "recompute"] == [
        (0, "forward"),
        (2, "forward"),
        (2, "backward"),
        (0, "backward"),
    ]


def test_the_sharded_schedule_runs_one_stage_after_another():
    report = report_of(3, 2, schedule=Schedule.SHARDED)
    assert n_cycles(report) == 2
    slices = cycle(report, 1).slices
    assert [p.stage for p in slices if p.direction == "forward"] == [0, 1, 2]
    for before, after in zip(slices, slices[1:]):
        assert before.start + before.seconds == pytest.approx(after.start)


def test_long_updates_are_cut_in_the_middle():
    report = report_of(4, 2000)
    shown, left_out = shown_cycles(report, 20)
    assert len(shown) == 20 and len(shown) + left_out == n_cycles(report)
    assert shown[0].index == 0 and shown[-1].index == n_cycles(report) - 1
    assert shown_cycles(report_of(2, 3), 20) == ([cycle(report_of(2, 3), i) for i in range(5)], 0)
