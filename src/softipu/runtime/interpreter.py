"""The interpreter engine: a graph as straight-line Python that calls ATen and frees every value after its last use."""

import math
import operator
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

import torch
from torch.fx import GraphModule, Node

from softipu.capture._torch_private import run_below_autograd
from softipu.graph.aliases import node_storage
from softipu.graph.effects import written_arguments
from softipu.runtime.direct_calls import direct_call
from softipu.runtime.engine import EngineSettings, Function
from softipu.runtime.strides import Strides


class Interpreter:
    """The engine that starts at once: PyTorch's own kernels, called one after the other."""

    name = "interpreter"

    def __init__(self, settings: EngineSettings = EngineSettings()) -> None:  # noqa: B008 - frozen
        pass

    def update_form(self, rule: str) -> str:
        """``fused``: the fewest calls."""
        return "fused"

    def compile(self, graph_module: GraphModule, examples: Sequence[torch.Tensor], title: str) -> Function:
        """Any graph, in the time that it takes to write it down as Python."""
        return compile_graph(graph_module)


def compile_graph(graph_module: GraphModule) -> Function:
    """A function of the graph's inputs that returns its outputs as a list.

    Runs beneath autograd. Needs no warm-up; the first call checks how the values lie in memory besides.
    """
    strides = Strides(graph_module)
    constants = {str(n.target): _attribute(graph_module, str(n.target)) for n in graph_module.graph.nodes if n.op == "get_attr"}
    body = _function(graph_module, constants, strides.checks())
    is_checked = False

    def call(*inputs: Any) -> Sequence[Any]:
        nonlocal body, is_checked
        results: Sequence[Any] = run_below_autograd(body, inputs)
        if not is_checked:
            body, is_checked = _function(graph_module, constants, strides.moves()), True
        return results

    return call


def _function(
    graph_module: GraphModule, constants: Mapping[str, Any], passed_through: Mapping[Node, Callable[[Any], Any]]
) -> Callable[..., Any]:
    source, scope = generate(graph_module, constants, passed_through)
    exec(compile(source, "<softipu interpreter>", "exec"), scope)  # noqa: S102 - our own generated code
    function: Callable[..., Any] = scope["step"]
    return function


def generate(
    graph_module: GraphModule, constants: Mapping[str, Any], passed_through: Mapping[Node, Callable[[Any], Any]]
) -> Tuple[str, Dict[str, Any]]:
    """Python source of a function ``step`` and the names it needs.

    Args:
        graph_module: the graph.
        constants: what its attributes are, by target.
        passed_through: functions that the values of some nodes go through.
    """
    scope: Dict[str, Any] = {}
    names: Dict[Node, str] = {}
    last_use = _last_uses(graph_module)
    written = {node_storage(target) for node in graph_module.graph.nodes for target in written_arguments(node)}
    lines: List[str] = []
    parameters: List[str] = []

    def text(value: Any) -> str:
        if isinstance(value, Node):
            return names[value]
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(text(v) for v in value) + "]"
        has_no_literal = isinstance(value, float) and not math.isfinite(value)
        if isinstance(value, (int, float, bool, str, type(None))) and not has_no_literal:
            return repr(value)
        name = f"k{len(scope)}"  # dtypes, devices, infinities: bound by reference
        scope[name] = value
        return name

    for index, node in enumerate(graph_module.graph.nodes):
        if node.op == "placeholder":
            names[node] = f"p{len(parameters)}"
            parameters.append(names[node])
        elif node.op == "get_attr":
            name = f"c{index}"
            scope[name] = constants[str(node.target)]
            names[node] = name
        elif node.op == "call_function":
            names[node] = f"v{index}"
            called = _call(node, text, scope, is_written=node_storage(node) in written)
            lines.append(
                f"{names[node]} = {text(passed_through[node])}({called})" if node in passed_through else f"{names[node]} = {called}"
            )
        elif node.op == "call_method":
            names[node] = f"v{index}"
            rest = ", ".join([text(a) for a in node.args[1:]] + [f"{k}={text(v)}" for k, v in node.kwargs.items()])
            lines.append(f"{names[node]} = {text(node.args[0])}.{node.target}({rest})")
        elif node.op == "output":
            lines.append(f"return {text(node.args[0])}")
        dead = [names[n] for n in last_use.get(node, []) if names[n].startswith("v")]
        if node.op in ("call_function", "call_method") and not node.users:
            dead.append(names[node])
        if dead and node.op != "output":
            lines.append("del " + ", ".join(dead))
    body = "\n    ".join(lines)
    return f"def step({', '.join(parameters)}):\n    {body}\n", scope


def _call(node: Node, text: Callable[[Any], str], scope: Dict[str, Any], *, is_written: bool) -> str:
    if node.target is operator.getitem:
        return f"{text(node.args[0])}[{text(node.args[1])}]"
    function = direct_call(node, is_written=is_written)
    name = f"f{len(scope)}"
    for known, value in scope.items():
        if value is function:
            name = known
            break
    scope[name] = function
    arguments = [text(a) for a in node.args] + [f"{k}={text(v)}" for k, v in node.kwargs.items()]
    return f"{name}({', '.join(arguments)})"


def _last_uses(graph_module: GraphModule) -> Dict[Node, List[Node]]:
    user: Dict[Node, Node] = {}
    for node in graph_module.graph.nodes:
        user.update((used, node) for used in node.all_input_nodes)
    found: Dict[Node, List[Node]] = {}
    for used, node in user.items():
        found.setdefault(node, []).append(used)
    return found


def _attribute(graph_module: GraphModule, target: str) -> Any:
    value: Any = graph_module
    for part in target.split("."):
        value = getattr(value, part)
    return value.clone() if isinstance(value, torch.Tensor) else value
