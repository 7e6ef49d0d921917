"""Values that real kernels lay out in memory otherwise than the capture took them to.

A captured graph is right for the strides that its fake values have: ``contiguous()`` of a value that was contiguous at capture is
not in the graph. Some real kernels return other strides than their fake ones. Which ones is seen in the first call; it is the same
in every call, for the shapes are.
"""

import operator
from typing import Any, Callable, Dict, Set, Tuple

import torch
from torch.fx import GraphModule, Node

from softipu.graph.aliases import node_storage
from softipu.graph.effects import overload_of


class Strides:
    """The strides that the capture took the fresh values of a graph to have, and the nodes that were seen to differ.

    Attributes:
        misplaced: the nodes whose values had other strides, as far as they were checked.
    """

    def __init__(self, graph_module: GraphModule) -> None:
        self._captured = {n: n.meta["val"].stride() for n in graph_module.graph.nodes if _is_fresh(n)}
        self.misplaced: Set[Node] = set()

    def checks(self) -> Dict[Node, Callable[[torch.Tensor], torch.Tensor]]:
        """For every fresh value: what to pass it through in the first call."""
        return {node: self._check_of(node, strides) for node, strides in self._captured.items()}

    def moves(self) -> Dict[Node, Callable[[torch.Tensor], torch.Tensor]]:
        """For every misplaced value: what to pass it through in the calls that follow."""
        return {node: _move_to(self._captured[node]) for node in self.misplaced}

    def _check_of(self, node: Node, strides: Tuple[int, ...]) -> Callable[[torch.Tensor], torch.Tensor]:
        move = _move_to(strides)

        def check(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or _lies(value, strides):
                return value
            self.misplaced.add(node)
            return move(value)

        return check


def _lies(tensor: torch.Tensor, strides: Tuple[int, ...]) -> bool:
    if tensor.layout is not torch.strided or tensor.dim() != len(strides) or tensor.numel() <= 1:
        return True
    return all(size == 1 or real == wanted for size, real, wanted in zip(tensor.shape, tensor.stride(), strides))


def _move_to(strides: Tuple[int, ...]) -> Callable[[torch.Tensor], torch.Tensor]:
    def move(value: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(value.shape, strides, dtype=value.dtype).copy_(value)

    return move


def _is_fresh(node: Node) -> bool:
    """Whether ``node`` is one tensor in memory of its own, that no input of its op shares."""
    value = node.meta.get("val")
    if node.op != "call_function" or not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return False
    maker = node.args[0] if node.target is operator.getitem else node
    if not isinstance(maker, Node):
        return False
    op = overload_of(maker)
    if op is not None and any(r.alias_info is not None for r in op._schema.returns):
        return False
    return node_storage(node) not in {node_storage(n) for n in maker.all_input_nodes} - {None}
