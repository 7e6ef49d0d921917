"""From a graph with in-place ops to one that Inductor takes: functional, in small ops, constants as inputs."""

from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple

import torch
from torch.fx import GraphModule, Interpreter, Node

from softipu.capture._torch_private import FakeTensorMode, backend_decompositions, new_fake_mode, trace
from softipu.passes.exact.dead_code import DeadCode
from softipu.runtime.compiled.attention import Attention, causal_masks, is_attention
from softipu.runtime.compiled.products import product_plus_bias

aten = torch.ops.aten


@dataclass(frozen=True)
class Functional:
    """A functional graph.

    Attributes:
        graph_module: takes the inputs of the original, then ``constants``; writes to inputs are ``copy_`` at the end.
        fakes: its inputs without values.
        mode: of the fakes.
        constants: tensors that the original held.
    """

    graph_module: GraphModule
    fakes: List[torch.Tensor]
    mode: FakeTensorMode
    constants: List[torch.Tensor]


def functional(graph_module: GraphModule, examples: Sequence[torch.Tensor]) -> Functional:
    """``graph_module`` without in-place ops.

    Args:
        graph_module: ATen ops; its inputs are tensors.
        examples: shapes, strides and dtypes of its inputs.
    """
    held = _held(graph_module)
    constants = [t.detach() for t in held.values()]
    mode = new_fake_mode()
    with mode:
        fakes = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cpu") for t in [*examples, *constants]]
    n_inputs = len(examples)

    def run(*inputs: torch.Tensor) -> List[torch.Tensor]:
        given = dict(zip(held, inputs[n_inputs:]))
        results = _Rewritten(graph_module, given).run(*inputs[:n_inputs])
        return list(results) if results is not None else []

    with torch.no_grad():
        traced = trace(torch.func.functionalize(run), mode, *fakes, decompositions=backend_decompositions())
    DeadCode().run(traced)  # torch 2.0's own takes a copy_ into an input for dead
    traced.recompile()
    return Functional(traced, fakes, mode, constants)


def constants_of(graph_module: GraphModule) -> List[torch.Tensor]:
    """The tensors that ``functional`` of this graph takes after the inputs."""
    return [t.detach() for t in _held(graph_module).values()]


class _Rewritten(Interpreter):
    """Runs a graph with given constants, with the ops that say in their schema what they write, and with those that compile best."""

    def __init__(self, graph_module: GraphModule, constants: Dict[str, torch.Tensor]) -> None:
        super().__init__(graph_module)
        self._constants = constants
        self._attention = Attention(constants)

    def run_node(self, n: Node) -> Any:
        if is_attention(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            value = self._attention(n, args, kwargs)
            if value is not None:
                return value
        return super().run_node(n)

    def get_attr(self, target: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        return self._constants[str(target)]

    def call_function(self, target: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        if target is aten.native_batch_norm.default and args[5] and args[3] is not None:
            # native_batch_norm's schema does not say that it writes the running statistics.
            return aten._native_batch_norm_legit.default(*args, **kwargs)
        value = product_plus_bias(target, args, kwargs)
        return super().call_function(target, args, kwargs) if value is None else value


def _held(graph_module: GraphModule) -> Dict[str, torch.Tensor]:
    held = {str(n.target): _attribute(graph_module, str(n.target)) for n in graph_module.graph.nodes if n.op == "get_attr"}
    return {**held, **causal_masks(graph_module)}


def _attribute(graph_module: GraphModule, target: str) -> torch.Tensor:
    value: Any = graph_module
    for part in target.split("."):
        value = getattr(value, part)
    return value


def written_inputs(functional_graph: GraphModule) -> List[Node]:
    """Placeholders that a functional graph copies into."""
    return [
        n.args[0]
        for n in functional_graph.graph.nodes
        if n.op == "call_function" and n.target is aten.copy_.default and isinstance(n.args[0], Node) and n.args[0].op == "placeholder"
    ]
