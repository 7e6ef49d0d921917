"""Gathers and scatters: rows move between the tile that holds them and the tile that needs them."""

from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import bits_of, n_bytes, result, tensor, traffic
from softipu.ops.work import VectorOp as V
from softipu.ops.work import Work

_FAMILY = "indexing"


@work_rule("index", "index_select", "gather", "take", "take_along_dim", "masked_select")
def gather(node: Node) -> Work:
    """One copy of every result, from another tile."""
    out = result(node)
    read, written = traffic(node)
    return Work(_FAMILY, (), ((V.COPY, float(out.numel())),), bits_of(out), written, written, n_bytes(out), n_supersteps=2)


@work_rule(
    *"""
    index_put index_put_ _index_put_impl_ _unsafe_index_put index_add index_add_ scatter scatter_ scatter_add scatter_add_
    scatter_reduce scatter_reduce_ index_reduce index_reduce_
    index_copy index_copy_ index_fill index_fill_ masked_scatter masked_scatter_ put put_
    """.split()
)
def scatter(node: Node) -> Work:
    """The result is a copy of the first argument; what is put in travels and is added."""
    out = result(node)
    values = [t for t in (tensor(a) for a in node.args[2:]) if t is not None] or [out]
    put = max(values, key=lambda t: t.numel())
    read, written = traffic(node)
    in_place = node.target._schema.name.endswith("_")  # type: ignore[union-attr]
    copied = 0.0 if in_place else float(out.numel())
    vector = ((V.COPY, copied), (V.ADD, float(put.numel())))
    return Work(_FAMILY, (), vector, bits_of(out), read, written, n_bytes(put), n_supersteps=3)


@work_rule(
    *"""
    _unsafe_index embedding_renorm_ one_hot bincount nonzero_static bucketize searchsorted
    """.split()
)
def table(node: Node) -> Work:
    """A look-up for each result."""
    return gather(node)
