"""Sums, means, maxima and the like: every element enters once, and partial results are combined across tiles."""

from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import argument, bits_of, inputs_of, result, results_of, tensor, traffic
from softipu.ops.work import VectorOp as V
from softipu.ops.work import Work

_FAMILY = "reduction"


def reduced(node: Node, *before: V, family: str = _FAMILY) -> Work:
    """Arithmetic ``before`` on each element, then a reduction: within tiles, then across."""
    source = tensor(node.args[0])
    elements = float(max(t.numel() for t in inputs_of(node)))
    read, written = traffic(node)
    vector = tuple((kind, elements) for kind in (*before, V.REDUCE))
    return Work(family, (), vector, bits_of(source) if source is not None else 32, read, written, n_supersteps=2)


@work_rule(
    *"""
    sum mean amax amin max min argmax argmin any all prod aminmax nansum count_nonzero
    """.split()
)
def reduce(node: Node) -> Work:
    """One pass; two tensors (max of two) are an op on each element."""
    if len(node.all_input_nodes) == 2:
        source = tensor(node.args[0])
        assert source is not None
        read, written = traffic(node)
        return Work(_FAMILY, (), ((V.COMPARE, float(result(node).numel())),), bits_of(source), read, written, n_supersteps=1)
    return reduced(node)


@work_rule("var", "std", "var_mean", "std_mean")
def variance(node: Node) -> Work:
    """Sum and sum of squares."""
    return reduced(node, V.SCALE, V.REDUCE)


@work_rule("norm", "linalg_vector_norm", "renorm", "_weight_norm_interface")
def norm(node: Node) -> Work:
    """Squares and their sum."""
    return reduced(node, V.SCALE)


@work_rule("dist")
def distance(node: Node) -> Work:
    """Differences, their squares, and the sum."""
    return reduced(node, V.ADD, V.SCALE)


@work_rule("trace", "histc")
def counted(node: Node) -> Work:
    """One pass over the elements."""
    return reduced(node)


@work_rule("logsumexp")
def logsumexp(node: Node) -> Work:
    """Maximum, exponentials, their sum."""
    return reduced(node, V.REDUCE, V.EXP)


@work_rule(
    *"""
    cumsum cumprod logcumsumexp cummax cummin cumsum_ cumprod_ _weight_norm_interface_backward
    """.split()
)
def scan(node: Node) -> Work:
    """Running sums: within tiles, across, and the carry added."""
    work = reduced(node, V.ADD)
    return Work(_FAMILY, (), work.vector, work.vector_bits, work.bytes_read, work.bytes_written, n_supersteps=3)


@work_rule("isin")
def isin(node: Node) -> Work:
    """Every element with every test element: a comparison, and whether any held. A number counts as one element."""
    tensors = [
        tensor(argument(node, names[0], argument(node, names[1]))) for names in (("elements", "element"), ("test_elements", "test_element"))
    ]
    pairs = 1.0
    for one in tensors:
        pairs *= one.numel() if one is not None else 1
    bits = next(bits_of(t) for t in tensors if t is not None)
    read, written = traffic(node)
    return Work(_FAMILY, (), ((V.COMPARE, pairs), (V.REDUCE, pairs)), bits, read, written, n_supersteps=2)


@work_rule("_cdist_forward", "_euclidean_dist", "_pdist_forward")
def distances(node: Node) -> Work:
    """||x_i - y_j||: difference, square and sum for every pair and coordinate."""
    x, y = tensor(node.args[0]), tensor(node.args[1]) if len(node.args) > 1 else None
    assert x is not None
    pairs = float(x.numel() * (y.shape[-2] if y is not None and y.dim() > 1 else x.shape[0]))
    read, written = traffic(node)
    return Work(_FAMILY, (), ((V.ADD, pairs), (V.SCALE, pairs), (V.REDUCE, pairs)), bits_of(x), read, written, n_supersteps=2)


@work_rule("_cdist_backward", "_pdist_backward")
def distances_backward(node: Node) -> Work:
    """The difference of every pair again, scaled by its gradient, summed over the other side."""
    gradient, out = tensor(node.args[0]), results_of(node)[0]
    assert gradient is not None
    pairs = float(gradient.numel() * out.shape[-1])
    read, written = traffic(node)
    return Work(_FAMILY, (), ((V.ADD, pairs), (V.ADD, pairs), (V.REDUCE, pairs)), bits_of(out), read, written, n_supersteps=3)
