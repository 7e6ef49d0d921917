"""Sorting and what is found by it: a bitonic network of log2(n) (log2(n) + 1) / 2 rounds of comparisons between tiles."""

import math

from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import bits_of, n_bytes, tensor, traffic
from softipu.ops.work import VectorOp as V
from softipu.ops.work import Work

_FAMILY = "sorting"


@work_rule(
    *"""
    sort argsort topk kthvalue median nanmedian mode unique_dim _unique2 msort
    """.split()
)
def sort(node: Node) -> Work:
    """Every round compares all elements with a partner that may be on another tile."""
    x = tensor(node.args[0])
    assert x is not None
    length = max(2, max(x.shape) if x.dim() else 2)
    levels = math.ceil(math.log2(length))
    rounds = levels * (levels + 1) // 2
    read, written = traffic(node)
    work = ((V.COMPARE, float(x.numel() * rounds)),)
    return Work(_FAMILY, (), work, bits_of(x), read, written, n_bytes(x) * rounds, n_supersteps=rounds)
