"""Pooling: a reduction over windows, and its gradient."""

from typing import Sequence

from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import argument, bits_of, n_bytes, result, tensor, traffic
from softipu.ops.work import VectorOp as V
from softipu.ops.work import Work

_FAMILY = "pooling"


def _window(node: Node) -> int:
    """Elements of a window; a kernel of one number is that number in every dimension."""
    out = result(node)
    kernel: Sequence[int] = argument(node, "kernel_size") or [1]
    n = 1
    for size in list(kernel) * (out.dim() - 2 if len(kernel) == 1 else 1):
        n *= size
    return n


@work_rule(
    *"""
    max_pool1d max_pool2d max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d mkldnn_max_pool2d
    fractional_max_pool2d fractional_max_pool3d
    """.split()
)
def pool(node: Node) -> Work:
    """Every result reads its window."""
    out = result(node)
    read, written = traffic(node)
    return Work(_FAMILY, (), ((V.REDUCE, float(out.numel() * _window(node))),), bits_of(out), read, written, n_supersteps=1)


@work_rule("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward", "avg_pool2d_backward", "avg_pool3d_backward")
def pool_backward(node: Node) -> Work:
    """Every element of the input reads the windows that it is in."""
    gradient, out = tensor(node.args[0]), result(node)
    assert gradient is not None
    read, written = traffic(node)
    touched = float(gradient.numel() * _window(node))
    return Work(_FAMILY, (), ((V.COMPARE, touched), (V.ADD, touched)), bits_of(out), read, written, n_supersteps=1)


@work_rule("fractional_max_pool2d_backward", "fractional_max_pool3d_backward")
def fractional_pool_backward(node: Node) -> Work:
    """Zeros, and each gradient added where its window had its maximum."""
    gradient, out = tensor(node.args[0]), result(node)
    assert gradient is not None
    read, written = traffic(node)
    vector = ((V.COPY, float(out.numel())), (V.ADD, float(gradient.numel())))
    return Work(_FAMILY, (), vector, bits_of(out), read, written, n_bytes(gradient), n_supersteps=2)


@work_rule("_adaptive_avg_pool2d", "adaptive_avg_pool1d", "_adaptive_avg_pool3d", "adaptive_max_pool2d", "adaptive_max_pool3d",
           "mkldnn_adaptive_avg_pool2d")  # fmt: skip
def adaptive_pool(node: Node) -> Work:
    """Every element of the input enters one window."""
    x, out = tensor(node.args[0]), result(node)
    assert x is not None
    read, written = traffic(node)
    return Work(_FAMILY, (), ((V.REDUCE, float(x.numel())),), bits_of(out), read, written, n_supersteps=2)


@work_rule("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward", "adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward")
def adaptive_pool_backward(node: Node) -> Work:
    """Every element of the input gets its share."""
    out = result(node)
    read, written = traffic(node)
    return Work(_FAMILY, (), ((V.SCALE, float(out.numel())),), bits_of(out), read, written, n_supersteps=1)
