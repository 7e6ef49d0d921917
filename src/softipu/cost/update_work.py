"""Work of a weight update, from the optimizer's own update graph."""

from dataclasses import replace
from functools import lru_cache
from typing import Any, Dict, Sequence, Tuple

import torch
from torch.fx import Interpreter, Node

from softipu.capture.update import GroupSpec, OptimizerSpec, Update, build_update
from softipu.capture.update.rules import RULES
from softipu.cost.workload import Parameter
from softipu.ops import VectorOp, Work, work_of

_ELEMENTS = 1 << 16  # so large that ops on scalars do not count


def spec_of(update: Any) -> OptimizerSpec:
    """The optimizer of an update graph, or the spec itself."""
    return update.spec if isinstance(update, Update) else update


def group_of(spec: OptimizerSpec, name: str) -> GroupSpec:
    """The group that holds a parameter; the first group for a name in none, as a frozen weight has no state."""
    return next((group for group in spec.groups if name in group.parameters), spec.groups[0])


def state_bytes(spec: OptimizerSpec, parameter: Parameter) -> float:
    """Optimizer state of one parameter, scalars left out."""
    slots = RULES[spec.rule].slots(spec, group_of(spec, parameter.name))
    return float(sum(parameter.elements * (2 if slot.dtype is torch.float16 else 4) for slot in slots if not slot.scalar))


def gradient_bytes(spec: OptimizerSpec, parameter: Parameter) -> float:
    """The accumulated gradient of one parameter."""
    return float(parameter.elements * (2 if spec.accum_type is torch.float16 else 4))


def accumulator_bytes(spec: OptimizerSpec, parameter: Parameter) -> float:
    """Memory of the accumulated gradient of one parameter; none when it shares that of the velocity."""
    return 0.0 if spec.rule == "SGD" and spec.use_combined_accum else gradient_bytes(spec, parameter)


def update_work(spec: OptimizerSpec, parameters: Sequence[Parameter]) -> Work:
    """The arithmetic on all elements of ``parameters``.

    A rule is one pass over a tensor for each value that it writes and each norm that it takes, so the rounds are counted by tensor.
    """
    vector: Dict[VectorOp, float] = {}
    n_supersteps = 0
    known: Dict[Tuple[int, int], Any] = {}
    for parameter in parameters:
        group = group_of(spec, parameter.name)
        key = (id(group), parameter.element_bytes)
        if key not in known:
            known[key] = _one(replace(spec, groups=(replace(group, parameters=("w",), positions=(0,)),)), parameter.element_bytes)
        per_element, passes = known[key]
        for kind, times in per_element:
            vector[kind] = vector.get(kind, 0.0) + times * parameter.elements
        n_supersteps += passes
    return Work("weight update", (), tuple(vector.items()), 32, n_supersteps=n_supersteps)


@lru_cache(maxsize=None)
def _one(spec: OptimizerSpec, element_bytes: int) -> Tuple[Tuple[Tuple[VectorOp, float], ...], int]:
    """(kinds of arithmetic with their number per element, passes over the tensor) of a spec with one parameter "w"."""
    weight = torch.empty(_ELEMENTS, dtype=torch.float16 if element_bytes == 2 else torch.float32, device="meta")
    update = build_update(spec, {"w": weight}, form="elementwise")
    with torch.no_grad():
        _Shapes(update.graph_module).run(*(torch.empty(e.shape, dtype=e.dtype, device="meta") for e in update.inputs))
    found: Dict[VectorOp, float] = {}
    passes = 0
    for node in update.graph_module.graph.nodes:
        work = work_of(node)
        large = [(kind, elements / _ELEMENTS) for kind, elements in work.vector if elements >= _ELEMENTS]
        for kind, times in large:
            found[kind] = found.get(kind, 0.0) + times
        if large and (node.target is torch.ops.aten.copy_.default or any(kind is VectorOp.REDUCE for kind, _ in large)):
            passes += 1
    return tuple(found.items()), max(1, passes)


class _Shapes(Interpreter):
    """Leaves on every node what it makes of tensors without memory."""

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        n.meta["val"] = result
        return result
