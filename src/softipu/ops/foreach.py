"""Ops on lists of tensors, as optimizers use them: the sum of what they do to each."""

from typing import Dict, Tuple

from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import bits_of, tensors_in, traffic
from softipu.ops.work import VectorOp as V
from softipu.ops.work import Work

_FAMILY = "foreach"

_BY_KIND: Dict[Tuple[V, ...], str] = {
    (V.ADD,): "add sub mul",
    (V.DIVIDE,): "div",
    (V.SCALE,): "neg abs sign",
    (V.SQRT,): "sqrt",
    (V.INVERSE,): "reciprocal",
    (V.ADD, V.ADD): "lerp addcmul",
    (V.ADD, V.DIVIDE): "addcdiv",
    (V.COMPARE,): "maximum minimum clamp_max clamp_min",
    (V.EXP,): "exp",
    (V.LOG,): "log",
    (V.COPY,): "zero copy",
    (V.POWER,): "pow",
    (V.SCALE, V.REDUCE): "norm",
}
KINDS: Dict[str, Tuple[V, ...]] = {name: kinds for kinds, names in _BY_KIND.items() for name in names.split()}
# gradient + decay, two moments (4), root, quotient, step
_ADAM = (V.ADD, V.ADD, V.ADD, V.ADD, V.ADD, V.SQRT, V.DIVIDE, V.ADD)
_SGD = (V.ADD, V.ADD, V.ADD)


def _on_lists(node: Node, kinds: Tuple[V, ...]) -> Work:
    first = list(tensors_in(node.args[0]))
    elements = float(sum(t.numel() for t in first))
    bits = max((bits_of(t) for t in first), default=32)
    read, written = traffic(node)
    return Work(_FAMILY, (), tuple((kind, elements) for kind in kinds), bits, read, written, n_supersteps=len(first) * len(kinds))


@work_rule(*(f"_foreach_{name}" for name in KINDS), *(f"_foreach_{name}_" for name in KINDS if name != "norm"))
def foreach(node: Node) -> Work:
    """The kind of arithmetic on every element of the first list."""
    name = node.target._schema.name.split("_foreach_")[-1]  # type: ignore[union-attr]
    return _on_lists(node, KINDS[name.rstrip("_")])


@work_rule("_fused_adam_", "_fused_adamw_", "_fused_adam", "_fused_adamw")
def fused_adam(node: Node) -> Work:
    """Decay, both moments, root, quotient and step for every parameter."""
    return _on_lists(node, _ADAM)


@work_rule("_fused_sgd_", "_fused_sgd", "_fused_adagrad_", "_fused_adagrad")
def fused_sgd(node: Node) -> Work:
    """Decay, momentum and step for every parameter."""
    return _on_lists(node, _SGD)
