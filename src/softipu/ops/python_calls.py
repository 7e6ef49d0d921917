"""Nodes that call Python: loops and choices around inner graphs, and calls of the host."""

from typing import List, Tuple

from torch.fx import GraphModule, Node

from softipu.graph.control_flow import Choice, Loop
from softipu.graph.floating_point import CheckFloats
from softipu.graph.python_calls import PythonCall
from softipu.graph.stochastic_rounding import RoundStochastically
from softipu.ops.registry import NOTHING, work_of
from softipu.ops.tensors import n_bytes, results_of, traffic
from softipu.ops.work import VectorOp, Work

_FAMILY = "control flow"
# What the tiles' arithmetic does by itself.
_BY_THE_WAY = (CheckFloats, RoundStochastically)


def python_call_work(node: Node, call: PythonCall) -> Work:
    """A loop does its body as often as it runs; a choice is taken for the larger of its bodies; the host is sent the arguments."""
    if isinstance(call, _BY_THE_WAY):
        return NOTHING
    if isinstance(call, Loop):
        return _joined([_body(call.bodies[0])] * call.count)
    if isinstance(call, Choice):
        return max((_body(body) for body in call.bodies), key=lambda work: (work.flops, work.bytes_read))
    read, written = traffic(node)
    sent = float(sum(t.numel() for source in node.all_input_nodes for t in results_of(source)))
    received = sum(n_bytes(t) for t in results_of(node))
    return Work("host calls", (), ((VectorOp.COPY, sent),), 32, read, written, moved_bytes=read + received, n_supersteps=2)


def _body(body: GraphModule) -> Work:
    return _joined([work_of(node) for node in body.graph.nodes])


def _joined(works: List[Work]) -> Work:
    """All of them, one after the other."""
    vector: List[Tuple[VectorOp, float]] = [entry for work in works for entry in work.vector]
    narrow = all(work.vector_bits == 16 for work in works if work.vector)
    return Work(
        _FAMILY,
        tuple(c for work in works for c in work.contractions),
        tuple(vector),
        16 if narrow and vector else 32,
        sum(work.bytes_read for work in works),
        sum(work.bytes_written for work in works),
        sum(work.moved_bytes for work in works),
        sum(work.n_supersteps for work in works),
    )
