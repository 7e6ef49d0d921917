"""Half results rounded up or down at random, as an IPU does with stochastic rounding switched on."""

from dataclasses import dataclass
from typing import ClassVar, List

import torch
from torch.fx import GraphModule, Node

from softipu.graph.effects import overload_of
from softipu.graph.stochastic_rounding import RoundStochastically

aten = torch.ops.aten
_FIRST_NUMBER = 1 << 20  # beyond the numbers of the ops that draw for themselves


@dataclass(frozen=True)
class StochasticRounding:
    """float32 -> half casts of a step draw from its seed; to run after half arithmetic, which makes a cast of every rounding.

    Args:
        seed: name of the placeholder that holds the step's seed.
    """

    seed: str
    name: ClassVar[str] = "stochastic-rounding"

    def run(self, graph_module: GraphModule) -> bool:
        graph = graph_module.graph
        seeds = [n for n in graph.nodes if n.op == "placeholder" and n.target == self.seed]
        if not seeds:  # the body of a loop that draws nothing: its roundings stay as they are
            return False
        roundings = [node for node in graph.nodes if _rounds(node)]
        for number, node in enumerate(roundings):
            source = _source(node)
            with graph.inserting_before(node):
                rounded = graph.call_function(RoundStochastically(), (seeds[0], _FIRST_NUMBER + number, source))
            rounded.meta.update(node.meta, val=source.meta["val"].to(torch.float16))
            if node.target is aten.copy_.default:
                node.replace_input_with(source, rounded)
            else:
                node.replace_all_uses_with(rounded)
                graph.erase_node(node)
        return bool(roundings)


def _rounds(node: Node) -> bool:
    """Whether a node turns float32 into half: a cast, or a copy into a half tensor."""
    if node.op != "call_function" or overload_of(node) not in (aten._to_copy.default, aten.copy_.default):
        return False
    result, source = node.meta.get("val"), _source(node).meta.get("val")
    return (
        isinstance(result, torch.Tensor)
        and isinstance(source, torch.Tensor)
        and (result.dtype, source.dtype) == (torch.float16, torch.float32)
        and len(_tensors(node)) > 0
    )


def _source(node: Node) -> Node:
    return _tensors(node)[-1]


def _tensors(node: Node) -> List[Node]:
    return [a for a in node.args if isinstance(a, Node)]
