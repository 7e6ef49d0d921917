"""How long the interpreter takes for a step, roughly: enough to say whether compiling it pays."""

from dataclasses import dataclass
from typing import Any, Sequence

import torch
from torch.fx import Node

from softipu.graph import Step
from softipu.graph.aliases import fake_tensors
from softipu.graph.effects import is_view, overload_of

# Assumed, for one core or two of a current server; only their order of magnitude counts.
_FLOPS_PER_SECOND = 1e11
_BYTES_PER_SECOND = 1e10
_SECONDS_PER_OP = 3e-6
_SECONDS_TO_COMPILE = 15.0
_SECONDS_TO_COMPILE_AN_OP = 0.1
_SAVED_FRACTION = 0.2


@dataclass(frozen=True)
class Effort:
    """Seconds of one micro-batch in the interpreter, and of compiling the step."""

    step_seconds: float
    compile_seconds: float

    def pays_after(self) -> int:
        """Micro-batches after which compiling has saved what it took."""
        # A step may compute nothing: return its inputs, or log numbers of Python's alone.
        return int(self.compile_seconds / (max(self.step_seconds, _SECONDS_PER_OP) * _SAVED_FRACTION)) + 1


def effort(step: Step) -> Effort:
    """From the shapes of a step; nothing is run."""
    nodes = [n for n in step.graph_module.graph.nodes if n.op == "call_function" and not is_view(n)]
    seconds = sum(_flops(n) / _FLOPS_PER_SECOND + _bytes(n) / _BYTES_PER_SECOND + _SECONDS_PER_OP for n in nodes)
    return Effort(seconds, _SECONDS_TO_COMPILE + _SECONDS_TO_COMPILE_AN_OP * len(nodes))


def _bytes(node: Node) -> int:
    return 2 * sum(t.numel() * t.element_size() for t in fake_tensors(node))


def _flops(node: Node) -> int:
    op = overload_of(node)
    name = op._schema.name.split("::")[-1] if op is not None else ""
    shapes = [tuple(a.meta["val"].shape) for a in node.args if isinstance(a, Node) and isinstance(a.meta.get("val"), torch.Tensor)]
    if name in ("mm", "bmm"):
        return 2 * _product(shapes[0]) * shapes[1][-1]
    if name in ("addmm", "baddbmm"):
        return 2 * _product(shapes[1]) * shapes[2][-1]
    if name == "convolution":
        out = node.meta["val"].shape
        return 2 * _product(out) * _product(shapes[1][1:])
    if name == "convolution_backward":
        return 4 * _product(shapes[0]) * _product(shapes[2][1:])
    return 0


def _product(shape: Sequence[Any]) -> int:
    total = 1
    for n in shape:
        total *= int(n)
    return total
