"""Numbers apart from tensors: what an update computes from its hyper-parameters alone becomes a program of its own.

Inductor writes a 0-d value into every loop that reads it, so a bias correction would take a power for each vector of a weight.
The first program computes all such values once, in float64 as PyTorch does; the second gets them as float32 numbers.
"""

from dataclasses import dataclass
from typing import Any, Dict, List, Set, Tuple

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from softipu.runtime.compiled.functional import Functional


@dataclass(frozen=True)
class Stage:
    """One program of a chain.

    Attributes:
        part: its graph.
        inputs: which inputs (and constants) of the whole graph it takes; what the stages before return follows after them.
    """

    part: Functional
    inputs: Tuple[int, ...]


def split_scalars(whole: Functional) -> List[Stage]:
    """``whole`` as one stage, or as two where it takes float64 numbers: numbers, then tensors."""
    nodes = list(whole.graph_module.graph.nodes)
    placeholders = [n for n in nodes if n.op == "placeholder"]
    everything = tuple(range(len(placeholders)))
    if not any(fake.dim() == 0 and fake.dtype == torch.float64 for fake in whole.fakes):
        return [Stage(whole, everything)]
    numbers: Set[Node] = {n for n, fake in zip(placeholders, whole.fakes) if fake.dim() == 0}
    numbers.update(n for n in nodes if _is_number(n, numbers))  # in order, so that arguments come first
    computed = [n for n in nodes if n in numbers and n.op == "call_function"]
    outside = [n for n in computed if any(user not in numbers for user in n.users)]
    if not outside:
        return [Stage(whole, everything)]
    first, taken = _numbers_stage(whole, placeholders, computed, outside)
    return [Stage(first, taken), Stage(_tensors_stage(whole, placeholders, computed, outside), everything)]


def _is_number(node: Node, numbers: Set[Node]) -> bool:
    if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor) or node.meta["val"].dim():
        return False
    return bool(node.all_input_nodes) and all(n in numbers for n in node.all_input_nodes)


def _numbers_stage(
    whole: Functional, placeholders: List[Node], computed: List[Node], outside: List[Node]
) -> Tuple[Functional, Tuple[int, ...]]:
    graph, copies = Graph(), {}
    read = {n for node in computed for n in node.all_input_nodes}
    taken = tuple(i for i, n in enumerate(placeholders) if n in read)
    for i in taken:
        copies[placeholders[i]] = graph.node_copy(placeholders[i])
    for node in computed:
        copies[node] = graph.node_copy(node, lambda n: copies[n])
    results = []
    for node in outside:
        result = copies[node]
        if _narrowed(node):
            result = graph.call_function(torch.ops.prims.convert_element_type.default, (result, torch.float32))
            result.meta["val"] = node.meta["val"].to(torch.float32)
        results.append(result)
    graph.output(tuple(results))
    return Functional(GraphModule(torch.nn.Module(), graph), [whole.fakes[i] for i in taken], whole.mode, whole.constants), taken


def _tensors_stage(whole: Functional, placeholders: List[Node], computed: List[Node], outside: List[Node]) -> Functional:
    graph = Graph()
    copies: Dict[Node, Node] = {n: graph.node_copy(n) for n in placeholders}
    fakes = list(whole.fakes)
    for i, node in enumerate(outside):
        copies[node] = graph.placeholder(f"number_{i}")
        value = node.meta["val"].to(torch.float32) if _narrowed(node) else node.meta["val"]
        copies[node].meta["val"] = value
        with whole.mode:
            fakes.append(torch.empty((), dtype=value.dtype, device="cpu"))
    skipped = set(computed)
    for node in whole.graph_module.graph.nodes:
        if node.op == "output":
            graph.output(map_arg(node.args[0], lambda n: copies[n]))
        elif node.op != "placeholder" and node not in skipped:
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    return Functional(GraphModule(torch.nn.Module(), graph), fakes, whole.mode, whole.constants)


def _narrowed(node: Node) -> bool:
    """Whether all who read a float64 number compute in float32: an op of a float32 tensor takes a number as float32."""
    return node.meta["val"].dtype == torch.float64 and all(_dtype(user) == torch.float32 for user in node.users if not _is_scalar(user))


def _is_scalar(node: Node) -> bool:
    value: Any = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dim() == 0


def _dtype(node: Node) -> Any:
    value = node.meta.get("val")
    return value.dtype if isinstance(value, torch.Tensor) else None
