"""Writing a torch.fx graph one ATen call at a time.

The update graphs are written, not traced: tracing with values would freeze learning rates into the graph, and tracing with
proxies does not reach operators that take lists of tensors.
"""

import operator
import re
from typing import Any, Callable, List

import torch
from torch.fx import Graph, GraphModule, Node

aten = torch.ops.aten


class Tape:
    """A graph under construction; every method appends to it."""

    def __init__(self) -> None:
        self.graph = Graph()
        self._n_inputs = 0

    def input(self, role: str, name: str) -> Node:
        """A placeholder; its Python name is readable and unique."""
        word = re.sub(r"\W+", "_", name)
        node = self.graph.placeholder(f"{role}_{self._n_inputs}_{word}")
        self._n_inputs += 1
        return node

    def call(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
        """The result of an ATen overload or of a Python operator on numbers."""
        return self.graph.call_function(target, args, kwargs)

    def number(self, node: Node) -> Node:
        """A 0-d tensor as a Python number."""
        return self.call(aten._local_scalar_dense.default, node)

    def numbers(self, node: Node) -> Node:
        """A vector as a list of Python numbers."""
        return self.call(torch.Tensor.tolist, node)

    def items(self, node: Node, count: int) -> List[Node]:
        """The single entries of a result that is a list."""
        return [self.graph.call_function(operator.getitem, (node, i)) for i in range(count)]

    def finish(self) -> GraphModule:
        """The graph as a callable that returns nothing."""
        self.graph.output(None)
        self.graph.lint()
        return GraphModule(torch.nn.Module(), self.graph, class_name="Update")
