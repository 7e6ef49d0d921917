"""Softmax and its gradient."""

from torch.fx import Node

from softipu.ops.elementwise import pointwise
from softipu.ops.registry import work_rule
from softipu.ops.work import VectorOp as V
from softipu.ops.work import Work

_FAMILY = "softmax"


def _steps(node: Node, n_supersteps: int, *kinds: V) -> Work:
    one = pointwise(node, kinds, _FAMILY)
    return Work(_FAMILY, (), one.vector, one.vector_bits, one.bytes_read, one.bytes_written, n_supersteps=n_supersteps)


@work_rule("_softmax", "_safe_softmax")
def softmax(node: Node) -> Work:
    """Maximum, x - maximum, exp, sum, times the inverse of the sum."""
    return _steps(node, 5, V.REDUCE, V.ADD, V.EXP, V.REDUCE, V.ADD)


@work_rule("_log_softmax")
def log_softmax(node: Node) -> Work:
    """Maximum, x - maximum, exp, sum, minus the logarithm of the sum."""
    return _steps(node, 5, V.REDUCE, V.ADD, V.EXP, V.REDUCE, V.ADD)


@work_rule("_softmax_backward_data")
def softmax_backward(node: Node) -> Work:
    """(dy - sum(dy * y)) * y."""
    return _steps(node, 4, V.ADD, V.REDUCE, V.ADD, V.ADD)


@work_rule("_log_softmax_backward_data")
def log_softmax_backward(node: Node) -> Work:
    """dy - exp(y) * sum(dy)."""
    return _steps(node, 3, V.EXP, V.REDUCE, V.ADD, V.ADD)
