"""What an op does besides returning a value: writes to its arguments, draws random numbers, returns views."""

from typing import Any, Iterator, List

import torch
from torch.fx import Node

aten = torch.ops.aten

# Ops that write to arguments their schema does not mark: (positions, of the flag that says they do).
_BATCH_NORM_STATISTICS = (3, 4)
_BATCH_NORM_TRAINING = 5
_UNMARKED_BATCH_NORM = ("native_batch_norm", "cudnn_batch_norm", "_batch_norm_impl_index", "_batch_norm_with_update")


def overload_of(node: Node) -> Any:
    """The ATen overload that ``node`` calls, or None."""
    return node.target if node.op == "call_function" and hasattr(node.target, "_schema") else None


def written_arguments(node: Node) -> List[Node]:
    """Nodes whose tensors ``node`` writes in place."""
    op = overload_of(node)
    if op is None:
        return []
    found: List[Node] = []
    for position, argument in enumerate(op._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = node.args[position] if position < len(node.args) and not argument.kwarg_only else node.kwargs.get(argument.name)
            found.extend(_nodes_in(value))
    name = op._schema.name.split("::")[-1]
    if name in _UNMARKED_BATCH_NORM and len(node.args) > _BATCH_NORM_TRAINING and node.args[_BATCH_NORM_TRAINING]:
        found.extend(n for i in _BATCH_NORM_STATISTICS for n in _nodes_in(node.args[i]))
    return found


def is_pure(node: Node) -> bool:
    """Whether ``node`` may be dropped when nobody uses its result."""
    return node.op in ("get_attr", "call_function") and not written_arguments(node)


def is_view(node: Node) -> bool:
    """Whether ``node`` only looks at another tensor's memory, or takes one out of an op's several results."""
    op = overload_of(node)
    if op is None:
        return node.op == "call_function"
    returns = op._schema.returns
    return bool(returns) and returns[0].alias_info is not None and not returns[0].alias_info.is_write


def is_random(node: Node) -> bool:
    """Whether ``node`` draws random numbers from the default generator."""
    op = overload_of(node)
    if op is None or _drops_nothing(node):
        return False
    tags = getattr(torch, "Tag", None)
    if tags is not None and torch.Tag.nondeterministic_seeded in op.tags:
        return True
    return any(str(a.type) in ("Optional[Generator]", "Generator?", "Generator") for a in op._schema.arguments)


def _drops_nothing(node: Node) -> bool:
    """Whether ``node`` is attention without dropout; its op counts as random all the same."""
    for position, argument in enumerate(overload_of(node)._schema.arguments):
        if argument.name == "dropout_p":
            given = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name, argument.default_value)
            return bool(given == 0)
    return False


def _nodes_in(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _nodes_in(item)
