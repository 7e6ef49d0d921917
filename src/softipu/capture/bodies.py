"""Cuts the bodies of loops and choices out of the step that is being captured, as graphs of their own.

A body runs once, inside the capture, and its nodes are then moved from the step's graph to a new one. So all that holds for a
step (rules, dtypes, modules of the nodes) holds for a body too.
"""

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Sequence, Tuple

import torch
from torch.fx import Graph, GraphModule, Node

from softipu.capture._torch_private import graph_being_traced, node_of
from softipu.capture.user_code import calling_line
from softipu.errors import CaptureError
from softipu.graph.control_flow import written_placeholders


@dataclass(frozen=True)
class Body:
    """A body cut out of a capture.

    Attributes:
        graph_module: graph of (inputs, used tensors) that returns the outputs as a tuple.
        given: nodes of the step that the graph takes: the inputs, then tensors of the step that it uses besides.
        outputs: fake tensors like those that it returns.
    """

    graph_module: GraphModule
    given: Tuple[Node, ...]
    outputs: Tuple[torch.Tensor, ...]


def cut_body(body: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> Body:
    """Runs ``body`` on tensors of the capture and takes its nodes out of the step.

    Args:
        body: returns a tensor, or a list or tuple of them.
        inputs: become the first inputs of the new graph.

    Raises:
        CaptureError: it returns something else than tensors.
    """
    graph = graph_being_traced()
    assert graph is not None, "There is no capture to cut a body out of."
    given = [_node(t) for t in inputs]  # now: in-place ops of the body change what a tensor's node is
    before = set(graph.nodes)
    returned = body(*inputs)
    outputs = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    for index, value in enumerate(outputs):
        if not isinstance(value, torch.Tensor):
            raise CaptureError(f"A body returns tensors, but what it returns at index {index} is a {type(value).__name__}.")
    # Constants stay in the step: its own attributes hold them.
    made = [n for n in graph.nodes if n not in before and n.op != "get_attr"]
    return _moved(graph, made, given, [_node(t) for t in outputs], outputs)


def _node(tensor: torch.Tensor) -> Node:
    found = node_of(tensor)
    if found is None:
        raise CaptureError("A body uses a tensor that the step does not know, such as one made outside forward. Give it as an input.")
    return found


def _moved(graph: Graph, made: List[Node], inputs: List[Node], outputs: List[Node], fakes: List[torch.Tensor]) -> Body:
    inside = set(made)
    mentioned = [n for node in made for n in node.all_input_nodes] + outputs
    used = [n for n in dict.fromkeys(mentioned) if n not in inside and n not in inputs]
    inner = Graph()
    copies: Dict[Node, Node] = {}
    for i, node in enumerate([*inputs, *used]):
        added = inner.placeholder(f"arg_{i}")
        added.meta.update(node.meta)
        copies.setdefault(node, added)
    for node in made:
        copied = inner.node_copy(node, lambda n: copies[n])
        copied.meta.update(node.meta)
        copies[node] = copied
    inner.output(tuple(copies[n] for n in outputs))
    for node in reversed(made):
        graph.erase_node(node)
    graph_module = GraphModule(torch.nn.Module(), inner)
    changed = [i for i in written_placeholders(graph_module) if i >= len(inputs)]
    if changed:
        raise CaptureError(
            "The body of a poptorch.for_loop or poptorch.cond changes in place a tensor from outside, but it works on copies. "
            "Give the tensor as an input of the body, and return its new value.",
            location=str(calling_line() or ""),
        )
    return Body(graph_module, (*inputs, *used), tuple(fakes))


def refuse_leaked_values(results: Sequence[torch.Tensor]) -> None:
    """Raises CaptureError if the step uses or returns a tensor that was made in a body and not returned from it."""
    graph = graph_being_traced()
    assert graph is not None, "There is no capture to look at."
    known = set(graph.nodes)
    mentioned = [n for node in graph.nodes for n in node.all_input_nodes] + [node_of(t) for t in results]
    if any(n is not None and n not in known for n in mentioned):
        raise CaptureError(
            "The step uses a tensor that was made in the body of a poptorch.for_loop or poptorch.cond without being returned. "
            "Return it from the body, and use what for_loop or cond returns."
        )
