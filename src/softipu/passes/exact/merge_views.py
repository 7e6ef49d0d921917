"""Merges views of views: t(t(x)) is x, and two equal views of one tensor are one."""

from dataclasses import dataclass
from typing import Any, ClassVar, Dict, Tuple

import torch
from torch.fx import GraphModule, Node

aten = torch.ops.aten
# Views that depend on nothing but their arguments; equal calls give aliases of the same elements.
_VIEWS = (
    aten.t.default, aten.transpose.int, aten.permute.default, aten.view.default, aten._unsafe_view.default, aten.expand.default,
    aten.unsqueeze.default, aten.squeeze.dim, aten.select.int, aten.slice.Tensor,
)  # fmt: skip


@dataclass(frozen=True)
class MergeViews:
    """Shares equal views and undoes double transposes."""

    name: ClassVar[str] = "merge-views"

    def run(self, graph_module: GraphModule) -> bool:
        seen: Dict[Tuple[Any, ...], Node] = {}
        changed = False
        for node in list(graph_module.graph.nodes):
            if node.op != "call_function" or node.target not in _VIEWS or node.kwargs:
                continue
            same = self._undone(node)
            if same is None:
                key = (node.target, node.args[0], repr(node.args[1:]))
                same = seen.setdefault(key, node)
            if same is not node:
                node.replace_all_uses_with(same)
                graph_module.graph.erase_node(node)
                changed = True
        return changed

    @staticmethod
    def _undone(node: Node) -> Any:
        source = node.args[0]
        if not isinstance(source, Node) or source.op != "call_function" or source.target is not node.target:
            return None
        if node.target is aten.t.default or (node.target is aten.transpose.int and set(node.args[1:]) == set(source.args[1:])):
            return source.args[0]
        return None
