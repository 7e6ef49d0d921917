"""What a node's value is on an IPU, where the software computes it in another type."""

from typing import Any

from torch.fx import Node

_VALUE = "device_value"
_EMULATED = "emulated"


def device_value(node: Node) -> Any:
    """The fake value as an IPU has it; differs from ``meta["val"]`` where half is computed in float32.

    Of a constant it is the constant: not all versions of PyTorch write down a fake value for it.
    """
    value = node.meta.get(_VALUE, node.meta.get("val"))
    if value is None and node.op == "get_attr" and node.graph.owning_module is not None:
        return getattr(node.graph.owning_module, str(node.target), None)
    return value


def is_emulated(node: Node) -> bool:
    """Whether the node serves the software only: an IPU computes in that type and casts nothing."""
    return bool(node.meta.get(_EMULATED, False))


def keep_device_value(node: Node, value: Any, *, emulated: bool = False) -> None:
    """Writes down what ``node`` is on an IPU, and whether it exists there at all."""
    node.meta[_VALUE] = value
    node.meta[_EMULATED] = emulated
