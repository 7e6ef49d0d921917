"""The time line of one weight update in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open."""

import json
from typing import Any, Dict, List

from softipu.report.cost_report import CostReport, Phase
from softipu.report.timeline import Timeline

MOST_EVENTS = 20_000
_AFTER = (Phase.ALL_REDUCE, Phase.UPDATE, Phase.STREAMING, Phase.HOST_IO)
_REPLICA, _IPUS = 0, 1


def trace_json(report: CostReport) -> str:
    """``trace_events`` as a file's text."""
    return json.dumps({"traceEvents": trace_events(report), "displayTimeUnit": "ms", "otherData": {"system": report.system}})


def trace_events(report: CostReport) -> List[Dict[str, Any]]:
    """Complete events (ph "X") in microseconds: one thread for each IPU of a replica, one for what the replica does as a whole.

    A long update is shown with a part of its steady cycles left out; a gap of that length says how many.
    """
    events = _names(report)
    timeline = Timeline(report)
    cycles, n_left_out = timeline.shown(max(2 * timeline.depth + 4, MOST_EVENTS // (3 * len(report.stages))))
    gap = None
    for before, after in zip([None, *cycles], cycles):
        if before is not None and after.index != before.index + 1:
            gap = before.start + before.seconds
            events.append(_event(f"{n_left_out:,} more cycles like these", "steady", _REPLICA, 0, gap, after.start - gap, {}))
        events.append(_event(f"cycle {after.index}", after.part, _REPLICA, 0, after.start, after.seconds, {"part": after.part}))
        for part in after.slices:
            arguments = {"stage": part.stage, "micro-batch": part.micro_batch, "begin": report.stages[part.stage].begin}
            name = f"{part.direction} {part.micro_batch}"
            events.append(_event(name, part.direction, _IPUS, part.ipu, part.start, part.seconds, arguments))
    at = cycles[-1].start + cycles[-1].seconds
    for phase in _AFTER:
        seconds = report.time.by_phase[phase].total if phase in report.time.by_phase else 0.0
        if seconds:
            events.append(_event(phase.value, phase.value, _REPLICA, 0, at, seconds, {}))
            at += seconds
    return events


def _names(report: CostReport) -> List[Dict[str, Any]]:
    def named(kind: str, process: int, thread: int, name: str) -> Dict[str, Any]:
        return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}

    found = [named("process_name", _REPLICA, 0, f"replica 0 of {report.plan.replicas}"), named("thread_name", _REPLICA, 0, "weight update")]
    found.append(named("process_name", _IPUS, 0, f"IPUs of replica 0 ({report.ipu})"))
    for memory in report.memory:
        found.append(named("thread_name", _IPUS, memory.ipu, f"IPU {memory.ipu}: {memory.what}"))
    return found


def _event(name: str, category: str, process: int, thread: int, start: float, seconds: float, args: Dict[str, Any]) -> Dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": process,
        "tid": thread,
        "ts": round(start * 1e6, 3),
        "dur": round(seconds * 1e6, 3),
        "args": args,
    }
