"""Copies: elements move within tiles, or between them when their order changes."""

from torch.fx import Node

from softipu.ops.registry import NOTHING, work_rule
from softipu.ops.tensors import bits_of, n_bytes, result, tensor, traffic
from softipu.ops.work import VectorOp as V
from softipu.ops.work import Work

_FAMILY = "copies"


def copied(node: Node, *, moved: float) -> Work:
    """Every element of the result written once, ``moved`` bytes of them on another tile."""
    out = result(node)
    read, written = traffic(node)
    return Work(_FAMILY, (), ((V.COPY, float(out.numel())),), bits_of(out), read, written, moved, n_supersteps=1)


@work_rule(
    *"""
    clone contiguous _to_copy copy_ copy to type_as lift_fresh_copy expand_copy view_copy diagonal_copy _to_dense
    """.split()
)
def copy(node: Node) -> Work:
    """A cast or a copy; one that changes the order of elements moves them between tiles. A cast to the same type is nothing."""
    source, out = tensor(node.args[0]), result(node)
    if node.target._schema.name == "aten::copy_":  # type: ignore[union-attr]
        source = tensor(node.args[1])
    assert source is not None
    reordered = source.stride() != out.stride() and source.shape == out.shape
    if not reordered and source.dtype == out.dtype and node.target._schema.name == "aten::_to_copy":  # type: ignore[union-attr]
        return NOTHING
    return copied(node, moved=n_bytes(out) if reordered else 0.0)


@work_rule(
    *"""
    cat stack repeat tile hstack vstack column_stack block_diag
    """.split()
)
def join(node: Node) -> Work:
    """A new tensor of others: as concatenation is a view for a compiler that places tensors, only copies move."""
    repeated = node.target._schema.name in ("aten::repeat", "aten::tile")  # type: ignore[union-attr]
    return copied(node, moved=n_bytes(result(node)) if repeated else 0.0)


@work_rule(
    *"""
    constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d pad flip
    roll rot90
    """.split()
)
def moved(node: Node) -> Work:
    """Every element in another place."""
    return copied(node, moved=n_bytes(result(node)))


@work_rule(
    *"""
    select_backward slice_backward diagonal_backward unfold_backward as_strided_scatter slice_scatter select_scatter
    diagonal_scatter diag_embed
    reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward
    replication_pad2d_backward replication_pad3d_backward
    """.split()
)
def view_backward(node: Node) -> Work:
    """Zeros with the gradient in a part of them."""
    return copied(node, moved=0.0)


@work_rule("triu", "tril", "triu_", "tril_")
def triangle(node: Node) -> Work:
    """A copy with a mask."""
    out = result(node)
    read, written = traffic(node)
    return Work(_FAMILY, (), ((V.COMPARE, float(out.numel())),), bits_of(out), read, written, n_supersteps=1)
