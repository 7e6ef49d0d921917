"""Fourier transforms: log2(n) rounds of butterflies, in each of which every element meets one of another tile."""

import math

import torch
from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import argument, result, tensor, traffic
from softipu.ops.work import VectorOp as V
from softipu.ops.work import Work

_FAMILY = "fourier"
_WORD_BYTES = 4


def _transform(node: Node, grid: torch.Tensor, *, words: int) -> Work:
    """5 n log2(n) multiplications and additions a complex transform of n; half with real numbers, whose other half is known.

    Args:
        grid: a tensor of the transform's full size.
        words: of an element: 2 of a complex number, 1 of a real one.
    """
    n = 1
    for dimension in argument(node, "dim"):
        n *= grid.shape[dimension]
    levels = math.log2(max(2, n))
    rounds = math.ceil(levels)
    elements = float(grid.numel() * words)
    read, written = traffic(node)
    moved = _WORD_BYTES * elements * rounds
    return Work(_FAMILY, (), ((V.ADD, 2.5 * elements * levels),), 32, read, written, moved, n_supersteps=rounds)


@work_rule("_fft_r2c")
def real_to_complex(node: Node) -> Work:
    """Of real numbers, as many as come in."""
    x = tensor(node.args[0])
    assert x is not None
    return _transform(node, x, words=1)


@work_rule("_fft_c2r")
def complex_to_real(node: Node) -> Work:
    """To real numbers, as many as go out."""
    return _transform(node, result(node), words=1)


@work_rule("_fft_c2c")
def complex_to_complex(node: Node) -> Work:
    """Of complex numbers."""
    return _transform(node, result(node), words=2)
