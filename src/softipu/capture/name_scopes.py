"""Names that a program gives to the ops of a part of its forward, written on their nodes."""

from typing import List, NamedTuple, Optional

from torch.fx import Node

from softipu.capture._torch_private import graph_being_traced
from softipu.capture.context import current

_KEY = "name_scopes"


class ScopeBegin(NamedTuple):
    """Where a scope began: after a node of the running capture, in the module at a path."""

    after: Optional[Node]
    module: str


class NameScope(NamedTuple):
    """A scope of a node: its name, and the path of the module in which it was opened."""

    name: str
    module: str


def begin_scope() -> ScopeBegin:
    """A scope begins now."""
    graph, context = graph_being_traced(), current()
    after = None if graph is None else next(iter(reversed(graph.nodes)), None)
    return ScopeBegin(after, context.here() if context is not None else "")


def end_scope(name: str, begin: ScopeBegin) -> None:
    """Says that all nodes since then are in the scope; scopes inside it have said so before."""
    graph = graph_being_traced()
    for node in () if graph is None else reversed(graph.nodes):
        if node is begin.after:
            break
        node.meta[_KEY] = [NameScope(name, begin.module), *node.meta.get(_KEY, [])]


def name_scopes_of(node: Node) -> List[NameScope]:
    """The scopes of a node, outermost first."""
    found: List[NameScope] = node.meta.get(_KEY, [])
    return found
