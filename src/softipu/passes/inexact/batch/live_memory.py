"""How much memory the values of a micro-batch need while it runs."""

from typing import Dict, List, Set

from torch.fx import Node

from softipu.graph import Step
from softipu.graph.aliases import fake_tensors, storage_key


def live_bytes(step: Step) -> int:
    """Most bytes alive at once of what the graph's ops make; inputs, weights and gradients do not count."""
    nodes: List[Node] = list(step.graph_module.graph.nodes)
    sizes: Dict[int, int] = {}
    last: Dict[int, int] = {}
    first: Dict[int, int] = {}
    outside: Set[int] = set()
    for place, node in enumerate(nodes):
        for tensor in fake_tensors(node):
            key = storage_key(tensor)
            if node.op in ("placeholder", "get_attr"):
                outside.add(key)
            first.setdefault(key, place)
            sizes[key] = max(sizes.get(key, 0), tensor.numel() * tensor.element_size())
            last[key] = place
        for used in node.all_input_nodes:
            for tensor in fake_tensors(used):
                last[storage_key(tensor)] = place
    for node in nodes[-1].all_input_nodes:
        outside.update(storage_key(t) for t in fake_tensors(node))
    changes = [0] * (len(nodes) + 1)
    for key, size in sizes.items():
        if key not in outside:
            changes[first[key]] += size
            changes[last[key] + 1] -= size
    most = now = 0
    for change in changes:
        now += change
        most = max(most, now)
    return most
