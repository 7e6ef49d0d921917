"""Names that a program gives to the ops of a part of its forward, written on their nodes."""

from typing import Optional

from torch.fx import Node

from softipu.capture._torch_private import graph_being_traced

_KEY = "name_scope"


def newest_node() -> Optional[Node]:
    """The last node of the running capture; None outside one, or when there is none yet."""
    graph = graph_being_traced()
    return None if graph is None else next(iter(reversed(graph.nodes)), None)


def put_in_scope(name: str, after: Optional[Node]) -> None:
    """Says that all nodes of the running capture after ``after`` are in a scope; an inner scope has said so before."""
    graph = graph_being_traced()
    for node in () if graph is None else reversed(graph.nodes):
        if node is after:
            break
        inner = node.meta.get(_KEY)
        node.meta[_KEY] = f"{name}/{inner}" if inner else name


def name_scope_of(node: Node) -> str:
    """The scopes of a node, outermost first, joined by ``/``; an empty text outside all."""
    found: str = node.meta.get(_KEY, "")
    return found
