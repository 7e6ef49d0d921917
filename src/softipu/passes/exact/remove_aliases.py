"""Drops detach and alias nodes: without autograd they return the tensor itself."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.fx import GraphModule

aten = torch.ops.aten
_ALIASES = (aten.detach.default, aten.alias.default)


@dataclass(frozen=True)
class RemoveAliases:
    """aten.detach(x) and aten.alias(x) -> x."""

    name: ClassVar[str] = "remove-aliases"

    def run(self, graph_module: GraphModule) -> bool:
        changed = False
        for node in list(graph_module.graph.nodes):
            if node.op == "call_function" and node.target in _ALIASES:
                node.replace_all_uses_with(node.args[0])
                graph_module.graph.erase_node(node)
                changed = True
        return changed
