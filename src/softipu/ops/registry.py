"""Which rule an op has. Rules are kept by schema name ("aten::mm"), so one rule serves all overloads in all versions of PyTorch."""

import importlib
import operator
from typing import Any, Callable, Dict, Tuple

from torch.fx import Node

from softipu.errors import UnknownOpError
from softipu.graph.device_value import is_emulated
from softipu.graph.effects import overload_of
from softipu.graph.python_calls import python_call_of
from softipu.ops.tensors import inputs_of
from softipu.ops.work import Work

Rule = Callable[[Node], Work]

_RULES: Dict[str, Rule] = {}
FAMILIES: Tuple[str, ...] = (
    "attention", "convolution", "copies", "creation", "elementwise", "embedding", "foreach", "fourier", "indexing", "linalg", "losses",
    "matmul", "normalisation", "pooling", "random", "recurrent", "reduction", "resampling", "softmax", "sorting", "views",
)  # fmt: skip
NOTHING = Work("views")
_SEEDED = ("softipu::seeded_", "softipu::many_seeded_")


def work_rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers the decorated function for ops of ATen with these names, such as "mm"; "library::name" for another library."""

    def register(rule: Rule) -> Rule:
        for name in names:
            full = name if "::" in name else f"aten::{name}"
            assert full not in _RULES, f"{full} has two rules"
            _RULES[full] = rule
        return rule

    return register


def known_ops() -> Tuple[str, ...]:
    """Schema names of all ops with a rule, sorted."""
    _load()
    return tuple(sorted(_RULES))


def work_of(node: Node) -> Work:
    """What ``node`` does; nodes that call nothing, or only serve the software's emulation of half, do nothing.

    Raises:
        UnknownOpError: no rule; names the op and says where to add one.
    """
    if node.op != "call_function" or node.target is operator.getitem or is_emulated(node):
        return NOTHING
    _load()
    call = python_call_of(node)
    if call is not None:
        from softipu.ops.python_calls import python_call_work  # which asks for the work of inner graphs here

        return python_call_work(node, call)
    name = schema_name(node)
    rule = _RULES.get(name)
    if rule is None:
        shapes = ", ".join(str(tuple(t.shape)) for t in inputs_of(node))
        raise UnknownOpError(
            f"The op '{name}' (node {node.name}, inputs {shapes or 'none'}) has no work rule, so what it costs is unknown. "
            f"Known are {len(_RULES)} ops. Add a rule to the file of its family in softipu/ops ({', '.join(FAMILIES)}), "
            f"decorated with @work_rule({name.split('::')[-1]!r}), or write the step with known ops."
        )
    return rule(node)


def schema_name(node: Node) -> str:
    """``library::op`` of what a node calls; a random op with its own seed counts as the op itself."""
    op: Any = overload_of(node)
    if op is None:
        inner = node.args[0] if node.args and hasattr(node.args[0], "_schema") else None  # call_seeded(op, seed, number, ...)
        return str(inner._schema.name) if inner is not None else str(getattr(node.target, "__name__", node.target))
    name = str(op._schema.name)
    if name.startswith(_SEEDED):
        return "softipu::seeded"
    return name


def _load() -> None:
    """Imports the rules when they are first asked for."""
    if not _RULES:
        for family in FAMILIES:
            importlib.import_module(f"softipu.ops.{family}")
