"""Ops on lists of tensors, as optimizers use them: the sum of what they do to each."""

from typing import Dict, Tuple

from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import bits_of, tensors_in, traffic
from softipu.ops.work import VectorOp as V
from softipu.ops.work import Work

_FAMILY = "foreach"

KINDS: Dict[str, Tuple[V, ...]] = {
    "add": (V.ADD,), "sub": (V.ADD,), "mul": (V.ADD,), "div": (V.DIVIDE,), "neg": (V.SCALE,), "sqrt": (V.SQRT,), "reciprocal": (V.INVERSE,),
    "lerp": (V.ADD, V.ADD), "addcmul": (V.ADD, V.ADD), "addcdiv": (V.ADD, V.DIVIDE), "maximum": (V.COMPARE,), "minimum": (V.COMPARE,),
    "abs": (V.SCALE,), "exp": (V.EXP,), "log": (V.LOG,), "sign": (V.SCALE,), "zero": (V.COPY,), "copy": (V.COPY,), "norm": (V.SCALE, V.REDUCE),
    "pow": (V.POWER,), "clamp_max": (V.COMPARE,), "clamp_min": (V.COMPARE,),
}  # fmt: skip
# gradient + decay, two moments (4), root, quotient, step
_ADAM = (V.ADD, V.ADD, V.ADD, V.ADD, V.ADD, V.SQRT, V.DIVIDE, V.ADD)
_SGD = (V.ADD, V.ADD, V.ADD)


def _on_lists(node: Node, kinds: Tuple[V, ...]) -> Work:
    first = [t for t in tensors_in(node.args[0])]
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
