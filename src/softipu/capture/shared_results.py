"""Ops that return one tensor twice: the second is taken to be the first, whatever their fake kernels say.

PyTorch's fake values of such an op share memory when it is first met, and no longer when they come from its cache.
"""

import operator
from typing import Any, Dict

import torch
from torch.fx import GraphModule

_KERNEL = getattr(torch.ops.aten, "mkldnn_rnn_layer_backward", None)  # torch 2.0 has none
# Op -> {number of a result: number of the result that it is}. The biases of an LSTM are added, so their gradients are one tensor.
_SAME: Dict[Any, Dict[int, int]] = {_KERNEL.default: {4: 3}} if _KERNEL is not None else {}


def join_shared_results(graph_module: GraphModule) -> None:
    """Replaces results that are another result of the same op by that one."""
    graph = graph_module.graph
    for node in list(graph.nodes):
        same = _SAME.get(node.target) if node.op == "call_function" else None
        if not same:
            continue
        results = node.meta["val"]
        node.meta["val"] = type(results)(results[same.get(number, number)] for number in range(len(results)))
        parts = {user.args[1]: user for user in node.users if user.target is operator.getitem}
        for number, first in same.items():
            second = parts.get(number)
            if second is None:
                continue
            if first not in parts:
                second.args = (node, first)
                parts[first] = second
                continue
            kept = parts[first]
            node.append(kept)  # before all that use either
            second.replace_all_uses_with(kept)
            graph.erase_node(second)
