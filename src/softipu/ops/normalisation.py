"""Normalisations: statistics over some dimensions, then a scale and a shift of every element."""

from typing import Tuple

from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import argument, bits_of, tensor, traffic
from softipu.ops.work import VectorOp as V
from softipu.ops.work import Work

_FAMILY = "normalisation"


def _on_elements(node: Node, position: int, kinds: Tuple[V, ...], n_supersteps: int) -> Work:
    x = tensor(node.args[position])
    assert x is not None
    read, written = traffic(node)
    n = float(x.numel())
    return Work(_FAMILY, (), tuple((kind, n) for kind in kinds), bits_of(x), read, written, n_supersteps=n_supersteps)


@work_rule(
    *"""
    native_layer_norm native_group_norm native_batch_norm cudnn_batch_norm _native_batch_norm_legit _batch_norm_with_update
    _fused_rms_norm
    """.split()
)
def norm(node: Node) -> Work:
    """Training: mean and mean square (two reductions), then (x - mean) * scale + shift."""
    return _on_elements(node, 0, (V.REDUCE, V.SCALE, V.REDUCE, V.ADD, V.ADD), 4)


@work_rule("_native_batch_norm_legit_no_training", "_batch_norm_no_update", "batch_norm_elemt")
def norm_with_known_statistics(node: Node) -> Work:
    """x * scale + shift, the rest known when the program is built."""
    return _on_elements(node, 0, (V.ADD,), 1)


@work_rule("native_layer_norm_backward", "native_group_norm_backward", "_fused_rms_norm_backward")
def norm_backward(node: Node) -> Work:
    """Sums of dy and dy * x_hat for the statistics and for the weights, then the gradient of every element."""
    return _on_elements(node, 0, (V.ADD, V.ADD, V.REDUCE, V.ADD, V.REDUCE, V.ADD, V.ADD), 6)


@work_rule("native_batch_norm_backward", "cudnn_batch_norm_backward", "batch_norm_backward")
def batch_norm_backward(node: Node) -> Work:
    """As above; with frozen statistics only the scale of dy and the gradients of the weights."""
    if argument(node, "train", True):
        return norm_backward(node)
    return _on_elements(node, 0, (V.ADD, V.REDUCE, V.REDUCE, V.ADD), 3)
