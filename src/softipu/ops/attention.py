"""Attention that PyTorch keeps in one op: two products with a softmax between them."""

from typing import List, Tuple

from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import argument, bits_of, tensor, traffic
from softipu.ops.work import Contraction, Work
from softipu.ops.work import VectorOp as V

_FAMILY = "attention"
_SOFTMAX = (V.ADD, V.REDUCE, V.ADD, V.EXP, V.REDUCE, V.ADD)
_SOFTMAX_BACKWARD = (V.ADD, V.REDUCE, V.ADD, V.ADD)


def _heads(value: object) -> Tuple[int, int, int]:
    """(groups, length, width) of q, k or v with shape [..., length, width]."""
    t = tensor(value)
    assert t is not None
    groups = 1
    for size in t.shape[:-2]:
        groups *= size
    return groups, t.shape[-2], t.shape[-1]


@work_rule(
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_attention_math", "_scaled_dot_product_fused_attention_overrideable", "scaled_dot_product_attention",
)  # fmt: skip
def attention(node: Node) -> Work:
    """scores_ST = q_SD @ k_TD^T, softmax, out_SD = scores_ST @ v_TD."""
    groups, length, width = _heads(node.args[0])
    _, others, _ = _heads(node.args[1])
    _, _, width_v = _heads(node.args[2])
    query = tensor(node.args[0])
    assert query is not None
    bits = bits_of(query)
    products = (
        Contraction(groups, length, width, others, 1, length, bits),
        Contraction(groups, length, others, width_v, 1, length, bits),
    )
    scores = float(groups * length * others)
    read, written = traffic(node)
    kinds = _SOFTMAX + ((V.RANDOM, V.ADD) if argument(node, "dropout_p", 0.0) else ())
    return Work(_FAMILY, products, tuple((kind, scores) for kind in kinds), bits, read, written, n_supersteps=5)


@work_rule(
    "_scaled_dot_product_flash_attention_for_cpu_backward", "_scaled_dot_product_flash_attention_backward",
    "_scaled_dot_product_efficient_attention_backward", "_scaled_dot_product_fused_attention_overrideable_backward",
)  # fmt: skip
def attention_backward(node: Node) -> Work:
    """The scores again, then the gradients by v, by the scores, by q and by k: five products."""
    groups, length, width = _heads(argument(node, "query"))
    _, others, _ = _heads(argument(node, "key"))
    _, _, width_v = _heads(argument(node, "value"))
    query = tensor(argument(node, "query"))
    assert query is not None
    bits = bits_of(query)
    products: List[Contraction] = [
        Contraction(groups, length, width, others, 1, length, bits),
        Contraction(groups, others, length, width_v, 1, others, bits),
        Contraction(groups, length, width_v, others, 1, length, bits),
        Contraction(groups, length, others, width, 1, length, bits),
        Contraction(groups, others, length, width, 1, others, bits),
    ]
    scores = float(groups * length * others)
    read, written = traffic(node)
    kinds = _SOFTMAX + _SOFTMAX_BACKWARD
    return Work(_FAMILY, tuple(products), tuple((kind, scores) for kind in kinds), bits, read, written, n_supersteps=9)
