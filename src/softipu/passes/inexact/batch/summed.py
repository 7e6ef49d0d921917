"""Which values of a step are only needed summed over micro-batches: those that reach nothing but gradients, through linear ops.

The sum over micro-batches of products of matrices is one product of long matrices, so a weight gradient is never made for each
micro-batch alone.
"""

import operator
from typing import Set

import torch
from torch.fx import Node

from softipu.graph import Role, Step

aten = torch.ops.aten
# Ops of one tensor that commute with a sum: they move elements.
MOVES = frozenset(
    [
        aten.t.default, aten.transpose.int, aten.permute.default, aten.view.default, aten._unsafe_view.default, aten.clone.default,
        aten.squeeze.dim, aten.unsqueeze.default,
    ]
)  # fmt: skip


def summed_nodes(step: Step) -> Set[Node]:
    """Nodes of a step whose single value is only needed as a sum."""
    nodes = list(step.graph_module.graph.nodes)
    returned = list(nodes[-1].args[0])
    n_outputs = len(step.named_outputs(Role.OUTPUT))
    kept = set(returned[:n_outputs])
    found: Set[Node] = set()
    for node in reversed(nodes):
        if node.op != "call_function" or node in kept or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        if node.users and all(user is nodes[-1] or _passes_sums_on(user, node, found) for user in node.users):
            found.add(node)
    return found


def _passes_sums_on(user: Node, node: Node, found: Set[Node]) -> bool:
    if user not in found:
        return False
    if user.target in MOVES:
        return True
    return user.target is aten.add.Tensor and not user.kwargs and len(user.args) == 2 and all(isinstance(a, Node) for a in user.args)


def is_item(node: Node) -> bool:
    """Whether ``node`` takes one value of an op with several."""
    return node.op == "call_function" and node.target is operator.getitem
