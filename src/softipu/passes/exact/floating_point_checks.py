"""Checks after every op that computes floats, as an IPU does with floating-point exceptions switched on."""

from dataclasses import dataclass
from typing import Any, ClassVar, List

import torch
from torch.fx import GraphModule, Node

from softipu.graph.effects import is_view, overload_of
from softipu.graph.floating_point import CheckFloats
from softipu.graph.origin import KEY, origin_of

# Ops that only make or move values: an infinity that a program writes down is meant.
_MAKES = frozenset("full full_like fill fill_ new_full scalar_tensor empty empty_like empty_strided new_empty new_empty_strided".split())
_MOVES = frozenset("_to_copy copy_ clone cat stack index gather index_select where masked_fill masked_fill_ constant_pad_nd".split())
_LEFT_OUT = _MAKES | _MOVES


@dataclass(frozen=True)
class FloatingPointChecks:
    """op -> op, check; to run last, because a check is nothing that other passes know. Bodies of loops and choices are checked too."""

    name: ClassVar[str] = "floating-point-checks"

    def run(self, graph_module: GraphModule) -> bool:
        changed = False
        for node in list(graph_module.graph.nodes):
            if _computes_floats(node):
                _add_check(graph_module, node)
                changed = True
        return changed


def _computes_floats(node: Node) -> bool:
    op = overload_of(node)
    if op is None or is_view(node) or op._schema.name.split("::")[-1] in _LEFT_OUT:
        return False
    return any(_is_float(v) for n in [node, *node.all_input_nodes] for v in _values(n))


def _add_check(graph_module: GraphModule, node: Node) -> None:
    origin = origin_of(node)
    check = CheckFloats(overload_of(node)._schema.name.split("::")[-1], origin.module, backward=origin.backward)
    inputs = [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor) and _is_float(n.meta["val"])]
    with graph_module.graph.inserting_after(node):
        added = graph_module.graph.call_function(check, (node, *inputs))
    added.meta.update({key: node.meta[key] for key in ("val", KEY) if key in node.meta})
    node.replace_all_uses_with(added, delete_user_cb=lambda user: user is not added)


def _values(node: Node) -> List[Any]:
    value = node.meta.get("val")
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
