"""Convolutions and their gradients as products over kernel positions."""

from typing import List, Sequence, Tuple

import torch
from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import argument, bits_of, result, tensor, traffic
from softipu.ops.work import Contraction, VectorOp, Work

_FAMILY = "convolution"


def _count(sizes: Sequence[int]) -> int:
    n = 1
    for size in sizes:
        n *= size
    return n


def _forward(x: torch.Tensor, weight: torch.Tensor, out_shape: Sequence[int], transposed: bool, groups: int) -> Contraction:
    """y[B*positions, Cout/G] = sum over taps of x[.., Cin/G] @ w[tap]; a transposed one has its products at the input's positions."""
    batch = x.shape[0]
    taps = _count(weight.shape[2:])
    positions = batch * _count(x.shape[2:] if transposed else out_shape[2:])
    inner = x.shape[1] // groups
    columns = weight.shape[1] if transposed else weight.shape[0] // groups
    return Contraction(groups, positions, inner, columns, taps, batch * _count(x.shape[2:]), bits_of(x))


@work_rule("convolution", "_convolution", "mkldnn_convolution", "convolution_overrideable")
def convolution(node: Node) -> Work:
    """Forward, and one addition per result when there is a bias."""
    x, weight, out = tensor(node.args[0]), tensor(node.args[1]), result(node)
    assert x is not None and weight is not None
    transposed, groups = bool(argument(node, "transposed", False)), int(argument(node, "groups", 1))
    bias = argument(node, "bias") is not None
    read, written = traffic(node)
    vector: Tuple[Tuple[VectorOp, float], ...] = ((VectorOp.ADD, float(out.numel())),) if bias else ()
    return Work(
        _FAMILY, (_forward(x, weight, out.shape, transposed, groups),), vector, bits_of(x), read, written, n_supersteps=1 if bias else 0
    )


@work_rule("convolution_backward")
def convolution_backward(node: Node) -> Work:
    """Up to three gradients.

    By the input: the same products with channels exchanged. By the weight: for every tap, x[Cin, positions] @ dy[positions, Cout].
    By the bias: a sum over positions.
    """
    gradient, x, weight = (tensor(a) for a in node.args[:3])
    assert gradient is not None and x is not None and weight is not None
    transposed, groups = bool(argument(node, "transposed", False)), int(argument(node, "groups", 1))
    mask = list(argument(node, "output_mask"))
    forward = _forward(x, weight, gradient.shape, transposed, groups)
    out_positions = gradient.shape[0] * _count(gradient.shape[2:])
    contractions: List[Contraction] = []
    if mask[0]:
        contractions.append(Contraction(groups, forward.rows, forward.columns, forward.inner, forward.taps, out_positions, forward.bits))
    if mask[1]:
        contractions.append(
            Contraction(groups, forward.inner * forward.taps, forward.rows, forward.columns, 1, forward.inner, forward.bits)
        )
    vector: Tuple[Tuple[VectorOp, float], ...] = ((VectorOp.REDUCE, float(gradient.numel())),) if mask[2] else ()
    read, written = traffic(node)
    return Work(_FAMILY, tuple(contractions), vector, bits_of(x), read, written, n_supersteps=2 if mask[2] else 0)
