"""Drops ops whose results nobody uses and that write to nothing."""

from dataclasses import dataclass
from typing import ClassVar

from torch.fx import GraphModule

from softipu.graph.effects import is_pure


@dataclass(frozen=True)
class DeadCode:
    """Random ops may go too: each draws from its own number, so the others' draws stay."""

    name: ClassVar[str] = "dead-code"

    def run(self, graph_module: GraphModule) -> bool:
        changed = False
        for node in reversed(list(graph_module.graph.nodes)):
            if not node.users and is_pure(node):
                graph_module.graph.erase_node(node)
                changed = True
        return changed
