"""Runs passes in order and says which one broke a graph."""

import time
from dataclasses import dataclass
from typing import List, Sequence, Tuple

from softipu.errors import Error, first_line
from softipu.graph import Step
from softipu.graph.python_calls import with_inner_graphs
from softipu.passes.exact.dead_code import DeadCode
from softipu.passes.exact.merge_views import MergeViews
from softipu.passes.exact.remove_aliases import RemoveAliases
from softipu.passes.graph_pass import GraphPass
from softipu.passes.inexact.half_arithmetic import HalfArithmetic

# Half arithmetic first: it says what the step computes. Then aliases, since they hide pairs of transposes; dead code last,
# since the others leave some.
STANDARD: Tuple[GraphPass, ...] = (HalfArithmetic(), RemoveAliases(), MergeViews(), DeadCode())


@dataclass(frozen=True)
class PassReport:
    """What one pass did: its name, whether it changed anything, and its time."""

    name: str
    changed: bool
    seconds: float


def run_passes(step: Step, passes: Sequence[GraphPass] = STANDARD) -> Tuple[Step, Tuple[PassReport, ...]]:
    """``step`` after ``passes``, which also run on the bodies of loops and choices; the graph is checked after each.

    Raises:
        Error: a pass left an invalid graph; names it and those before it.
    """
    reports: List[PassReport] = []
    for one in passes:
        start = time.perf_counter()
        try:
            changed = False
            for graph_module in with_inner_graphs(step.graph_module):
                if one.run(graph_module):
                    graph_module.graph.lint()
                    changed = True
        except Exception as error:
            before = ", ".join(r.name for r in reports) or "none"
            raise Error(f"The pass '{one.name}' failed (passes before it: {before}): {first_line(error)}") from error
        reports.append(PassReport(one.name, changed, time.perf_counter() - start))
    for graph_module in with_inner_graphs(step.graph_module):
        graph_module.recompile()
    return step, tuple(reports)
