"""Attention over short sequences as products of matrices and a softmax.

PyTorch's kernel walks through keys in blocks so that weights never lie in memory. That pays for long sequences; for short ones its small
products are slower than large ones, by half forward and twice backward, and what comes before and after it is not fused.

B rows, H heads, Q queries, K keys, D features of a head.
"""

import math
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import torch
from torch.fx import GraphModule, Node

from softipu.graph.effects import is_view

_NAME = "_scaled_dot_product_flash_attention_for_cpu"
_FORWARD = getattr(getattr(torch.ops.aten, _NAME, None), "default", None)  # not before torch 2.2
_BACKWARD = getattr(getattr(torch.ops.aten, f"{_NAME}_backward", None), "default", None)
# Weights are kept for the backward pass: no more of them than of queries, keys, values and results together.
_MOST_KEYS_PER_FEATURE = 4


def is_attention(node: Node) -> bool:
    """Whether ``node`` is one of the ops that are rewritten."""
    return node.op == "call_function" and node.target is not None and node.target in (_FORWARD, _BACKWARD)


def causal_masks(graph_module: GraphModule) -> Dict[str, torch.Tensor]:
    """What a causal attention op of the graph adds to its scores, by name: 0, and minus infinity for keys after the query.

    A constant in memory is faster than a comparison of positions in every loop.
    """
    found = {}
    for node in graph_module.graph.nodes:
        if is_attention(node) and node.target is _FORWARD and _arguments(node.target, node.args, node.kwargs)["is_causal"]:
            n_queries, n_keys = (node.args[i].meta["val"].shape[2] for i in (0, 1))
            found[_mask_name(n_queries, n_keys)] = torch.full((n_queries, n_keys), -math.inf).triu(1)
    return found


class Attention:
    """Rewrites the attention ops of one graph; keeps the weights of each forward op for its backward op.

    Args:
        masks: tensors of the graph that are to have the values of ``causal_masks``.
    """

    def __init__(self, masks: Mapping[str, torch.Tensor]) -> None:
        self._masks = masks
        self._weights: Dict[Any, torch.Tensor] = {}  # [B * H, Q, K], by forward op

    def __call__(self, node: Node, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Optional[Sequence[torch.Tensor]]:
        """Values of an attention op, in memory as the graph has them; None where PyTorch's kernel is better."""
        given = _arguments(node.target, args, kwargs)
        q, k, v, promised = given["query"], given["key"], given["value"], node.meta.get("val")
        is_short = k.shape[2] <= _MOST_KEYS_PER_FEATURE * q.shape[3]
        is_plain = given["attn_mask"] is None and not given["dropout_p"] and q.dtype == torch.float32
        if not is_short or not is_plain or q.shape[:2] != k.shape[:2] or promised is None:
            return None
        scale = given["scale"] if given["scale"] is not None else 1 / math.sqrt(q.shape[3])
        if node.target is _FORWARD:
            result, logsumexp, weights = self._forward(q, k, v, scale, is_causal=given["is_causal"])
            self._weights[node] = weights
            return [_laid_out_as(result, promised[0]), _laid_out_as(logsumexp, promised[1])]
        known = self._weights.get(_forward_of(node))
        if known is None:
            return None
        gradients = _backward(given["grad_out"], q, k, v, known, scale)
        return [_laid_out_as(value, like) for value, like in zip(gradients, promised)]

    def _forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, *, is_causal: bool
    ) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        n_heads, n_queries, n_keys = q.shape[:2], q.shape[2], k.shape[2]
        scores = torch.bmm(_matrices(q * scale), _matrices(k).transpose(1, 2))
        if is_causal:
            scores = scores + self._masks[_mask_name(n_queries, n_keys)]
        largest = scores.amax(2, keepdim=True)
        exponentials = (scores - largest).exp()
        total = exponentials.sum(2, keepdim=True)
        weights = exponentials * total.reciprocal()
        result = torch.bmm(weights, _matrices(v))
        return result.view(*n_heads, n_queries, v.shape[3]), (largest + total.log()).view(*n_heads, n_queries), weights


def _backward(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, weights: torch.Tensor, scale: float
) -> Sequence[torch.Tensor]:
    grad_result = _matrices(grad)
    grad_weights = torch.bmm(grad_result, _matrices(v).transpose(1, 2))
    grad_scores = weights * (grad_weights - (grad_weights * weights).sum(2, keepdim=True)) * scale
    grad_q = torch.bmm(grad_scores, _matrices(k))
    grad_k = torch.bmm(grad_scores.transpose(1, 2), _matrices(q))
    grad_v = torch.bmm(weights.transpose(1, 2), grad_result)
    return grad_q.view(q.shape), grad_k.view(k.shape), grad_v.view(v.shape)


def _forward_of(backward: Node) -> Any:
    """The op that returned the logsumexp of a backward op, maybe in another shape."""
    node: Any = _arguments(backward.target, backward.args, backward.kwargs)["logsumexp"]
    while is_view(node):
        node = node.args[0]
    return node


def _matrices(x_BHTD: torch.Tensor) -> torch.Tensor:
    """[B, H, T, D] -> [B * H, T, D]"""
    return x_BHTD.reshape(-1, *x_BHTD.shape[2:])


def _mask_name(n_queries: int, n_keys: int) -> str:
    return f"later keys {n_queries} {n_keys}"


def _laid_out_as(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if value.stride() == like.stride():
        return value
    strides = like.stride()
    order = sorted(range(like.dim()), key=lambda d: strides[d], reverse=True)
    return value.permute(order).contiguous().permute([order.index(d) for d in range(like.dim())])


def _arguments(target: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Dict[str, Any]:
    """By name, defaults filled in."""
    declared = target._schema.arguments
    given = {argument.name: argument.default_value for argument in declared if argument.has_default_value()}
    given.update(zip([argument.name for argument in declared], args))
    return {**given, **kwargs}
