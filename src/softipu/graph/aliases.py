"""Which values of a graph share memory, read from the storages of their fake values."""

from typing import Any, Iterator, Optional

import torch
from torch.fx import Node


def fake_tensors(node: Node) -> Iterator[torch.Tensor]:
    """Fake tensors that ``node`` produces."""
    yield from _tensors(node.meta.get("val"))


def storage_key(tensor: torch.Tensor) -> int:
    """Equal for tensors that share memory."""
    return tensor.untyped_storage()._cdata


def node_storage(node: Node) -> Optional[int]:
    """Storage of a node's single tensor, or None."""
    value = node.meta.get("val")
    return storage_key(value) if isinstance(value, torch.Tensor) else None


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
