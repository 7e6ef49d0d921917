"""A graph as text: the same for the same program, whatever its nodes are called."""

import hashlib
from typing import Any, Dict, Iterable, List, Sequence

import torch
from torch.fx import GraphModule, Node


def graph_text(graph_module: GraphModule, fakes: Sequence[torch.Tensor]) -> str:
    """One line for each node. Constants that are tensors stand there by name; ``constant_text`` tells what they are."""
    numbers: Dict[Node, int] = {}
    lines: List[str] = []
    inputs = iter(fakes)
    for node in graph_module.graph.nodes:
        numbers[node] = len(numbers)
        if node.op == "placeholder":
            fake = next(inputs)
            lines.append(f"%{numbers[node]} = input {fake.dtype} {tuple(fake.shape)} {fake.stride()}")
        else:
            arguments = ", ".join([_text(a, numbers) for a in node.args] + [f"{k}={_text(v, numbers)}" for k, v in node.kwargs.items()])
            lines.append(f"%{numbers[node]} = {node.op} {node.target}({arguments})")
    return "\n".join(lines)


def constant_text(constant: torch.Tensor) -> str:
    """Form and values of a tensor that a graph holds: what a compiler makes of the graph may depend on them."""
    values = hashlib.sha256(constant.contiguous().flatten().view(torch.uint8).numpy().tobytes()).hexdigest()
    return f"{constant.dtype} {tuple(constant.shape)} {constant.stride()} {values}"


def digest(parts: Iterable[str]) -> str:
    """A name for everything in ``parts``, safe as a file's."""
    text = hashlib.sha256()
    for part in parts:
        text.update(part.encode() + b"\0")
    return text.hexdigest()[:40]


def _text(value: Any, numbers: Dict[Node, int]) -> str:
    if isinstance(value, Node):
        return f"%{numbers[value]}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(v, numbers) for v in value) + "]"
    return repr(value)
