"""The trace is what ui.perfetto.dev reads."""

import json
from dataclasses import replace

from softipu.report.trace import MOST_EVENTS, trace_events, trace_json
from tests.softipu.report.sample_report import cost


def work(report):
    return [e for e in trace_events(report) if e["ph"] == "X"]


def test_every_event_has_what_the_format_asks_for():
    for event in json.loads(trace_json(cost()))["traceEvents"]:
        assert event["ph"] in "XM"
        assert {"name", "pid", "tid"} <= set(event)
        if event["ph"] == "X":
            assert event["ts"] >= 0 and event["dur"] > 0


def test_each_ipu_is_a_named_thread():
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace_events(cost()) if e["name"] == "thread_name"}
    assert names[1, 3] == "IPU 3: stage 3: encoder layers 17 to 23, pooler, head"
    assert {e["tid"] for e in work(cost()) if e["pid"] == 1} == {0, 1, 2, 3}


def test_events_of_a_thread_do_not_overlap():
    report = cost()
    for thread in {(e["pid"], e["tid"]) for e in work(report)}:
        own = sorted((e for e in work(report) if (e["pid"], e["tid"]) == thread), key=lambda e: e["ts"])
        for before, after in zip(own, own[1:]):
            assert before["ts"] + before["dur"] <= after["ts"] + 0.01


def test_the_trace_lasts_as_long_as_the_step():
    report = cost()
    end = max(e["ts"] + e["dur"] for e in work(report))
    assert abs(end * 1e-6 - report.time.total.total) < 1e-6


def test_a_long_update_is_cut_and_says_so():
    report = cost()
    long = replace(report, plan=replace(report.plan, gradient_accumulation=100_000))
    events = work(long)
    assert len(events) < 1.2 * MOST_EVENTS
    (gap,) = [e for e in events if e["name"].endswith("more cycles like these")]
    shown = [e for e in events if e["name"].startswith("cycle ")]
    assert len(shown) + int(gap["name"].split()[0].replace(",", "")) == 100_006
