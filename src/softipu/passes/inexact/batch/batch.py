"""A step for n micro-batches at once.

Every value of one micro-batch becomes a value of n with a new first dimension; what does not depend on the micro-batch stays as it
is. Ops with a rule (rules.py) get by with fewer or larger calls; all others are what torch.func.vmap makes of them. Statistics,
losses and random numbers stay those of the single micro-batch, so the result differs from that of n runs by rounding only.
"""

from dataclasses import replace
from typing import Any, List, Tuple, cast

import torch
from torch.fx import Interpreter, Node

from softipu.capture._torch_private import new_fake_mode, quiet_fakes, trace, without_vmap_fallback
from softipu.errors import first_line
from softipu.graph import Role, Step, Value
from softipu.graph.effects import overload_of, written_arguments
from softipu.graph.python_calls import needs_interpreter
from softipu.passes.inexact.batch.rules import SUM_RULES, Call, rule_of
from softipu.passes.inexact.batch.summed import MOVES, is_item, summed_nodes
from softipu.passes.inexact.batch.value import Many, Total, many_in, total
from softipu.passes.pipeline import run_passes

aten = torch.ops.aten
_VIEWS = (aten.view.default, aten._unsafe_view.default)


class CannotBatch(Exception):
    """A step whose micro-batches must run one by one; the message says why."""


def batch(step: Step, n: int) -> Step:
    """``step`` for ``n`` micro-batches at once.

    Inputs [...] become [n, ...], 0-d inputs stay; the seed becomes [n]; outputs become [n, ...]; gradients become sums.

    Raises:
        CannotBatch: the step writes buffers or inputs in place, calls Python, or has an op that cannot be batched exactly.
    """
    if step.mutated:
        raise CannotBatch(f"the step writes {', '.join(sorted(step.mutated))} in place, one micro-batch after the other")
    if needs_interpreter(step.graph_module):
        raise CannotBatch("the step calls Python")
    inputs = [_value_of_many(value, n) for value in step.inputs]
    placeholders = [node for node in step.graph_module.graph.nodes if node.op == "placeholder"]
    mode = new_fake_mode()
    with mode:
        fakes = [_fake(value, node.meta["val"]) for value, node in zip(inputs, placeholders)]
    is_many = [new.shape != old.shape for new, old in zip(inputs, step.inputs)]

    def run(*tensors: torch.Tensor) -> List[torch.Tensor]:
        given = [Many(t) if many else t for t, many in zip(tensors, is_many)]
        results = _Batching(step, n).run(*given)
        return [_returned(value, out, n) for value, out in zip(results, _results(step))]

    try:
        with torch.no_grad(), without_vmap_fallback(), quiet_fakes():
            graph_module = trace(run, mode, *fakes)
    except CannotBatch:
        raise
    except Exception as error:  # torch.func.vmap says no by errors of many classes
        raise CannotBatch(first_line(error)) from error
    outputs = tuple(_value_of_many(v, n) if v.role is Role.OUTPUT else v for v in step.outputs)
    batched = replace(step, graph_module=graph_module, inputs=tuple(inputs), outputs=outputs)
    return run_passes(batched)[0]


class _Batching(Interpreter):
    """Runs a step's graph on Many and plain tensors."""

    def __init__(self, step: Step, n: int) -> None:
        super().__init__(step.graph_module)
        self._n = n
        self._summed = summed_nodes(step)
        self._writes = any(written_arguments(node) for node in step.graph_module.graph.nodes)

    def run_node(self, node: Node) -> Any:
        if node.op != "call_function":
            return super().run_node(node)
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        if is_item(node):
            value = args[0][args[1]]
        else:
            if overload_of(node) is None:
                raise CannotBatch(f"{node.target} is no op of PyTorch")
            summed_items = frozenset(cast(int, u.args[1]) for u in node.users if is_item(u) and u in self._summed)
            call = Call(node.target, self._n, tuple(args), dict(kwargs), summed_items)
            value = self._total(node, call) if node in self._summed else self._many(call)
        if node in self._summed and isinstance(value, Many):
            return Total(value.tensor.sum(0))
        return value

    def _many(self, call: Call) -> Any:
        if not any(True for _ in many_in([call.args, call.kwargs])):
            return call.target(*call.args, **call.kwargs)
        rule = rule_of(call.target)
        value = rule(call) if rule is not None else None
        if value is not None:
            return value
        if call.target in _VIEWS:
            return self._view(call)
        return _mapped(call)

    def _total(self, node: Node, call: Call) -> Any:
        if call.target in MOVES and isinstance(call.args[0], (Many, Total)):
            return Total(call.target(total(call.args[0], self._n), *call.args[1:], **call.kwargs))
        if any(isinstance(a, Total) for a in call.args):  # of the ops that take sums there is one besides: a + b
            return Total(total(call.args[0], self._n) + total(call.args[1], self._n))
        rule = SUM_RULES.get(call.target)
        value = rule(call) if rule is not None else None
        return value if value is not None else self._many(call)

    def _view(self, call: Call) -> Many:
        tensor, shape = call.args[0].tensor, (self._n, *call.args[1])
        if self._writes:  # somebody may write through the view
            return Many(tensor.view(shape))
        return Many(tensor.reshape(shape))


def _mapped(call: Call) -> Any:
    """What torch.func.vmap makes of an op."""
    found = list(many_in([call.args, call.kwargs]))

    def run(*tensors: torch.Tensor) -> Any:
        remaining = iter(tensors)
        args, kwargs = _with_tensors([call.args, call.kwargs], remaining)
        return call.target(*args, **kwargs)

    results = torch.func.vmap(run)(*[m.tensor for m in found])
    if isinstance(results, torch.Tensor):
        return Many(results)
    return tuple(Many(t) if isinstance(t, torch.Tensor) else t for t in results)


def _with_tensors(value: Any, tensors: Any) -> Any:
    if isinstance(value, Many):
        return next(tensors)
    if isinstance(value, (list, tuple)):
        return type(value)([_with_tensors(v, tensors) for v in value])
    if isinstance(value, dict):
        return {k: _with_tensors(v, tensors) for k, v in value.items()}
    return value


def _returned(value: Any, out: Tuple[Value, torch.Tensor], n: int) -> torch.Tensor:
    described, single = out
    if described.role is Role.OUTPUT:
        return value.tensor if isinstance(value, Many) else value.expand(n, *value.shape)
    gradient = total(value, n)
    if gradient.stride() == single.stride():
        return gradient
    return torch.empty_strided(single.shape, single.stride(), dtype=single.dtype, device=gradient.device).copy_(gradient)


def _results(step: Step) -> List[Tuple[Value, torch.Tensor]]:
    (output,) = [n for n in step.graph_module.graph.nodes if n.op == "output"]
    return [(value, node.meta["val"]) for value, node in zip(step.outputs, output.args[0])]


def _value_of_many(value: Value, n: int) -> Value:
    if value.role is Role.SEED or value.role is Role.OUTPUT or (value.role is Role.INPUT and value.shape):
        return replace(value, shape=(n, *value.shape))
    return value


def _fake(value: Value, single: torch.Tensor) -> torch.Tensor:
    if tuple(value.shape) == tuple(single.shape):
        return torch.empty_strided(single.shape, single.stride(), dtype=single.dtype, device="cpu")
    return torch.empty(value.shape, dtype=single.dtype, device="cpu")
