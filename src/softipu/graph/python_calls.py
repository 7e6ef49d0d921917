"""Nodes that call Python instead of an ATen op: printing, callbacks on the host, loops and choices around inner graphs.

Only the interpreter runs them; a graph that has one is not for the compiled engine.
"""

from typing import Any, Iterator, Tuple

from torch.fx import GraphModule, Node


class PythonCall:
    """Target of a ``call_function`` node whose work is Python.

    torch.fx writes a node's target by name into the code that it generates, so a target has a name and a module.

    Attributes:
        bodies: inner graphs that it runs.
        is_seeded: whether it takes (seed, number) before its other arguments, because a body draws random numbers.
    """

    __name__ = "python_call"
    __module__ = "softipu.graph.python_calls"
    bodies: Tuple[GraphModule, ...] = ()
    is_seeded = False

    def __call__(self, *args: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} says nothing about what it does: define __call__")

    def with_bodies(self, bodies: Tuple[GraphModule, ...], *, is_seeded: bool) -> "PythonCall":
        """The same call around other inner graphs."""
        raise NotImplementedError(f"{type(self).__name__} has no inner graphs")


def python_call_of(node: Node) -> Any:
    """The PythonCall that a node calls, or None."""
    return node.target if node.op == "call_function" and isinstance(node.target, PythonCall) else None


def needs_interpreter(graph_module: GraphModule) -> bool:
    """Whether a graph has a node that only the interpreter can run."""
    return any(python_call_of(node) is not None for node in graph_module.graph.nodes)


def with_inner_graphs(graph_module: GraphModule) -> Iterator[GraphModule]:
    """A graph and all graphs inside it, inner ones first."""
    for node in graph_module.graph.nodes:
        call = python_call_of(node)
        for body in call.bodies if call is not None else ():
            yield from with_inner_graphs(body)
    yield graph_module
