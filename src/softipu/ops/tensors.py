"""Shapes, element counts and types of a node's arguments and results."""

from typing import Any, Iterator, List, Optional, Tuple

import torch
from torch.fx import Node

from softipu.graph.device_value import device_value
from softipu.graph.effects import overload_of


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Fake tensors of an argument or of a node's result, lists included."""
    if isinstance(value, Node):
        value = device_value(value)
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def argument(node: Node, name: str, default: Any = None) -> Any:
    """An argument by its name in the schema, wherever the call put it; ``default`` when the op has none of that name."""
    if name in node.kwargs:
        return node.kwargs[name]
    for position, one in enumerate(overload_of(node)._schema.arguments):
        if one.name == name:
            if position < len(node.args) and not one.kwarg_only:
                return node.args[position]
            return one.default_value if one.has_default_value() else default
    return default


def inputs_of(node: Node) -> List[torch.Tensor]:
    """Fake tensors that the op takes, each node once."""
    return [t for source in node.all_input_nodes for t in tensors_in(source)]


def results_of(node: Node) -> List[torch.Tensor]:
    """Fake tensors that the op returns."""
    return list(tensors_in(node))


def result(node: Node) -> torch.Tensor:
    """The first tensor that the op returns."""
    return results_of(node)[0]


def tensor(value: Any) -> Optional[torch.Tensor]:
    """The fake tensor of an argument, or None."""
    return next(iter(tensors_in(value)), None)


def bits_of(value: torch.Tensor) -> int:
    """Width of the arithmetic on a tensor: half types 16, all others 32, since a tile has no wider arithmetic."""
    return 16 if value.dtype in (torch.float16, torch.bfloat16) else 32


def element_bytes(dtype: torch.dtype) -> int:
    """Memory of an element on the device: 64-bit types are 32-bit there, and a complex number is two of them (or two halves)."""
    host = torch.empty((), dtype=dtype, device="meta").element_size()
    return min(8 if dtype.is_complex else 4, host)


def n_bytes(value: torch.Tensor) -> float:
    """Memory of the elements of a tensor on the device; an expanded dimension is stored once."""
    n = 1
    for size, stride in zip(value.shape, value.stride()):
        n *= size if stride or size == 0 else 1
    return float(n * element_bytes(value.dtype))


def traffic(node: Node) -> Tuple[float, float]:
    """(bytes read, bytes written) when every tensor is touched once."""
    return sum(n_bytes(t) for t in inputs_of(node)), sum(n_bytes(t) for t in results_of(node))
