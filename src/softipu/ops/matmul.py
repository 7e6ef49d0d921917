"""Matrix products: out[M, N] = a[M, K] @ b[K, N] takes M*N*K multiply-accumulates."""

from typing import List, Tuple

import torch
from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import argument, bits_of, result, tensor, traffic
from softipu.ops.work import Contraction, VectorOp, Work

_FAMILY = "matmul"


def product(node: Node, contractions: Tuple[Contraction, ...], added: float, like: torch.Tensor) -> Work:
    """The work of products whose ``added`` results get something added."""
    read, written = traffic(node)
    vector: List[Tuple[VectorOp, float]] = [(VectorOp.ADD, added)] if added else []
    return Work(_FAMILY, contractions, tuple(vector), bits_of(like), read, written, n_supersteps=1 if added else 0)


def _shape(a: torch.Tensor, b: torch.Tensor) -> Contraction:
    rows, inner = (1, a.shape[-1]) if a.dim() == 1 else (a.shape[-2], a.shape[-1])
    columns = 1 if b.dim() == 1 else b.shape[-1]
    groups = 4 if a.is_complex() and b.is_complex() else 1  # products of their real and imaginary parts
    for size in a.shape[:-2]:
        groups *= size
    return Contraction(groups, rows, inner, columns, 1, rows, bits_of(a))


@work_rule("mm", "bmm", "mv", "dot", "vdot")
def mm(node: Node) -> Work:
    """[G,] M x K @ K x N; vectors are matrices with one row or column."""
    a, b = tensor(node.args[0]), tensor(node.args[1])
    assert a is not None and b is not None
    return product(node, (_shape(a, b),), 0.0, a)


@work_rule("addmm", "baddbmm", "addmv", "addbmm")
def addmm(node: Node) -> Work:
    """The product and one addition per result."""
    a, b = tensor(node.args[1]), tensor(node.args[2])
    assert a is not None and b is not None
    added = 0.0 if argument(node, "beta", 1) == 0 else float(result(node).numel())
    return product(node, (_shape(a, b),), added, a)


@work_rule("addr", "ger", "outer")
def outer(node: Node) -> Work:
    """x[M] y[N]: one multiplication per result."""
    read, written = traffic(node)
    out = result(node)
    return Work(_FAMILY, (), ((VectorOp.ADD, float(out.numel())),), bits_of(out), read, written, n_supersteps=1)


@work_rule("linear", "matmul")
def linear(node: Node) -> Work:
    """x[..., K] @ weight: leading dimensions are rows, or groups when both arguments have them."""
    a, b = tensor(node.args[0]), tensor(node.args[1])
    assert a is not None and b is not None
    if b.dim() > 2:
        return product(node, (_shape(a, b),), 0.0, a)
    out, inner = result(node), a.shape[-1]
    columns = out.shape[-1] if b.dim() == 2 else 1
    rows = out.numel() // max(1, columns)
    bias = len(node.args) > 2 and node.args[2] is not None
    return product(node, (Contraction(1, rows, inner, columns, 1, rows, bits_of(a)),), float(out.numel()) if bias else 0.0, a)


@work_rule("affine_grid_generator")
def affine_grid(node: Node) -> Work:
    """Of every image, its positions [H W, 3] @ theta^T[3, 2]; with depth [D H W, 4] @ [4, 3]."""
    theta, out = tensor(node.args[0]), result(node)
    assert theta is not None
    images, axes, inner = theta.shape
    positions = out.numel() // max(1, images * axes)
    return product(node, (Contraction(images, positions, inner, axes, 1, positions, bits_of(theta)),), 0.0, theta)


@work_rule("_trilinear")
def trilinear(node: Node) -> Work:
    """Products of three tensors summed over some dimensions: as many multiply-accumulates as their common shape has elements.

    Counted as x1[rows, I] @ w[I, J] for each of the results, then a product with x2 and a sum over J.
    """
    x1, weight, out = tensor(node.args[0]), tensor(node.args[1]), result(node)
    assert x1 is not None and weight is not None
    inner, columns = weight.shape[-2], weight.shape[-1]
    groups = max(1, weight.numel() // max(1, inner * columns))
    rows = max(1, out.numel() // groups)
    added = float(groups * rows * columns)
    return product(node, (Contraction(groups, rows, inner, columns, 1, rows, bits_of(x1)),), added, x1)
