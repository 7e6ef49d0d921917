"""Embeddings: rows of a table that is spread over the tiles."""

from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import bits_of, element_bytes, n_bytes, result, tensor, traffic
from softipu.ops.work import VectorOp as V
from softipu.ops.work import Work

_FAMILY = "embedding"


@work_rule("embedding")
def embedding(node: Node) -> Work:
    """Every tile looks for the indices that it holds, then rows travel."""
    out = result(node)
    _, written = traffic(node)
    return Work(_FAMILY, (), ((V.COPY, float(out.numel())),), bits_of(out), written, written, n_bytes(out), n_supersteps=2)


@work_rule("embedding_dense_backward", "embedding_backward")
def embedding_backward(node: Node) -> Work:
    """The gradient of every row travels and is added to a table of zeros."""
    gradient, table = tensor(node.args[0]), result(node)
    assert gradient is not None
    vector = ((V.COPY, float(table.numel())), (V.ADD, float(gradient.numel())))
    return Work(_FAMILY, (), vector, bits_of(table), n_bytes(gradient), n_bytes(table), n_bytes(gradient), n_supersteps=3)


@work_rule("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(node: Node) -> Work:
    """Rows travel and are summed bag by bag."""
    table, indices = tensor(node.args[0]), tensor(node.args[1])
    assert table is not None and indices is not None
    rows = float(indices.numel() * table.shape[-1])
    moved = rows * element_bytes(table.dtype)
    return Work(_FAMILY, (), ((V.ADD, rows),), bits_of(table), moved, n_bytes(result(node)), moved, n_supersteps=3)


@work_rule("_embedding_bag_dense_backward", "_embedding_bag_backward")
def embedding_bag_backward(node: Node) -> Work:
    """As for rows that are not summed."""
    gradient, indices, table = tensor(node.args[0]), tensor(node.args[1]), result(node)
    assert gradient is not None and indices is not None
    rows = float(indices.numel() * table.shape[-1])
    vector = ((V.COPY, float(table.numel())), (V.ADD, rows))
    return Work(_FAMILY, (), vector, bits_of(table), n_bytes(gradient), n_bytes(table), rows * element_bytes(table.dtype), n_supersteps=3)


@work_rule("_embedding_bag_per_sample_weights_backward")
def embedding_bag_weights_backward(node: Node) -> Work:
    """Every row again, times the gradient of its bag, summed."""
    gradient, table, weights = tensor(node.args[0]), tensor(node.args[1]), result(node)
    assert gradient is not None and table is not None
    rows = float(weights.numel() * table.shape[-1])
    moved = rows * element_bytes(table.dtype)
    return Work(_FAMILY, (), ((V.ADD, rows), (V.REDUCE, rows)), bits_of(table), moved, n_bytes(weights), moved, n_supersteps=3)
