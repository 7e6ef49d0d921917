"""Ops that several micro-batches share in one call.

A rule gets a Call and returns the op's value as Many, Total or a plain tensor (or a tuple of them), or None where it does not apply.
n micro-batches, B rows; the rest as in the op's own documentation.
"""

from dataclasses import dataclass
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple

import torch

from softipu.capture.many_random_ops import for_many
from softipu.passes.inexact.batch.value import Many, Total

aten = torch.ops.aten


@dataclass(frozen=True)
class Call:
    """One call of the step.

    Attributes:
        n: micro-batches.
        args, kwargs: Many where they depend on the micro-batch; schema defaults are not filled in.
        summed_items: of an op with several results, those that are only needed as a sum.
    """

    target: Any
    n: int
    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]
    summed_items: FrozenSet[int] = frozenset()


Rule = Callable[[Call], Any]
RULES: Dict[Any, Rule] = {}
SUM_RULES: Dict[Any, Rule] = {}


def _rule(table: Dict[Any, Rule], *names: str) -> Callable[[Rule], Rule]:
    def keep(rule: Rule) -> Rule:
        for name in names:
            packet = getattr(aten, name.split(".")[0], None)  # not every version has every op
            if packet is not None and name.split(".")[1] in packet.overloads():
                table[getattr(packet, name.split(".")[1])] = rule
        return rule

    return keep


def rule_of(target: Any) -> Optional[Rule]:
    """The rule of an op, or None."""
    if str(getattr(target, "_schema", "")).startswith("softipu::seeded_"):
        return _seeded
    return RULES.get(target)


# Products


@_rule(RULES, "mm.default")
def _mm(call: Call) -> Optional[Many]:
    a, b = call.args
    if isinstance(a, Many) and isinstance(b, torch.Tensor) and _is_long(a):
        return _unfolded(aten.mm.default(_folded(a), b), call.n)
    return None


@_rule(RULES, "addmm.default")
def _addmm(call: Call) -> Optional[Many]:
    bias, a, b = call.args
    if isinstance(a, Many) and isinstance(b, torch.Tensor) and isinstance(bias, torch.Tensor) and bias.dim() == 1 and _is_long(a):
        return _unfolded(aten.addmm.default(bias, _folded(a), b, **call.kwargs), call.n)
    return None


@_rule(SUM_RULES, "mm.default")
def _sum_of_mm(call: Call) -> Optional[Total]:
    """The sum of products is the product of the factors side by side."""
    a, b = call.args
    if not isinstance(a, Many) or not isinstance(b, Many):
        return None
    n, rows, inner = a.tensor.shape
    long = a.tensor.permute(1, 0, 2).reshape(rows, n * inner)
    return Total(aten.mm.default(long, b.tensor.reshape(n * inner, b.tensor.shape[2])))


# Layers


@_rule(RULES, "native_layer_norm.default")
def _layer_norm(call: Call) -> Any:
    """Normalises the last dimensions, whatever comes before them."""
    x, shape, weight, bias, eps = call.args
    if not isinstance(x, Many) or isinstance(weight, Many) or isinstance(bias, Many):
        return None
    return tuple(Many(t) for t in aten.native_layer_norm.default(x.tensor, shape, weight, bias, eps))


@_rule(RULES, "native_layer_norm_backward.default")
def _layer_norm_backward(call: Call) -> Any:
    grad, x, shape, mean, rstd, weight, bias, mask = call.args
    if not all(isinstance(t, Many) for t in (grad, x, mean, rstd)) or not _sums_suffice(call, mask, (1, 2)):
        return None
    found = aten.native_layer_norm_backward.default(grad.tensor, x.tensor, shape, mean.tensor, rstd.tensor, weight, bias, mask)
    return Many(found[0]), Total(found[1]), Total(found[2])


@_rule(RULES, "embedding.default")
def _embedding(call: Call) -> Optional[Many]:
    weight, indices = call.args[:2]
    if isinstance(weight, Many) or not isinstance(indices, Many):
        return None
    return Many(aten.embedding.default(weight, indices.tensor, *call.args[2:], **call.kwargs))


@_rule(SUM_RULES, "embedding_dense_backward.default")
def _sum_of_embedding_backward(call: Call) -> Optional[Total]:
    grad, indices, *rest = call.args
    scales_by_frequency = len(rest) > 2 and rest[2]
    if not isinstance(grad, Many) or not isinstance(indices, Many) or scales_by_frequency:
        return None
    return Total(aten.embedding_dense_backward.default(grad.tensor, indices.tensor, *rest))


@_rule(RULES, "convolution.default")
def _convolution(call: Call) -> Optional[Many]:
    x, weight, bias, *rest = call.args
    if not isinstance(x, Many) or isinstance(weight, Many) or isinstance(bias, Many):
        return None
    return _unfolded(aten.convolution.default(_folded(x), weight, bias, *rest), call.n)


@_rule(RULES, "convolution_backward.default")
def _convolution_backward(call: Call) -> Any:
    grad, x, weight, *rest = call.args
    mask = rest[-1]
    if not isinstance(grad, Many) or not isinstance(x, Many) or isinstance(weight, Many) or not _sums_suffice(call, mask, (1, 2)):
        return None
    found = aten.convolution_backward.default(_folded(grad), _folded(x), weight, *rest)
    return (_unfolded(found[0], call.n) if mask[0] else None, Total(found[1]) if mask[1] else None, Total(found[2]) if mask[2] else None)


@_rule(RULES, "native_batch_norm.default")
def _batch_norm(call: Call) -> Any:
    """In evaluation every row is normalised by itself; in training the statistics are a micro-batch's own."""
    x, *rest = call.args
    if not isinstance(x, Many) or rest[4] or any(isinstance(t, Many) for t in rest):
        return None
    found = aten.native_batch_norm.default(_folded(x), *rest)
    return _unfolded(found[0], call.n), found[1], found[2]


_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


@_rule(RULES, f"{_ATTENTION}.default", f"{_ATTENTION}_backward.default")
def _attention(call: Call) -> Any:
    """Rows attend for themselves."""
    tensors = [a for a in call.args if isinstance(a, (Many, torch.Tensor))]
    mask = call.kwargs.get("attn_mask")
    if not all(isinstance(t, Many) for t in tensors) or (isinstance(mask, torch.Tensor) and mask.dim() == 4 and mask.shape[0] != 1):
        return None
    kwargs = dict(call.kwargs, attn_mask=_folded(mask)) if isinstance(mask, Many) else call.kwargs
    found = call.target(*[_folded(a) if isinstance(a, Many) else a for a in call.args], **kwargs)
    return tuple(_unfolded(t, call.n) for t in found)


# Sums


@_rule(SUM_RULES, "sum.dim_IntList")
def _sum_of_sums(call: Call) -> Optional[Total]:
    x, dims, *rest = call.args
    if not isinstance(x, Many) or not dims:
        return None
    keeps = bool(rest and rest[0])
    rank = x.tensor.dim() - 1
    found = aten.sum.dim_IntList(x.tensor, [0] + [d % rank + 1 for d in dims], keeps, **call.kwargs)
    return Total(found.squeeze(0) if keeps else found)


# Random numbers


def _seeded(call: Call) -> Any:
    """Each micro-batch draws from its own seed."""
    args: List[Any] = []
    for a in call.args:
        if isinstance(a, torch.Tensor):
            a = a.expand(call.n, *a.shape)
        args.append(a.tensor if isinstance(a, Many) else a)
    found = for_many(call.target)(*args, **call.kwargs)
    return Many(found) if isinstance(found, torch.Tensor) else tuple(Many(t) for t in found)


# Rows of all micro-batches below one another


def _folded(value: Many) -> torch.Tensor:
    """[n, B, ...] -> [n * B, ...]"""
    shape: Sequence[int] = value.tensor.shape
    return value.tensor.reshape(shape[0] * shape[1], *shape[2:])


def _unfolded(tensor: torch.Tensor, n: int) -> Many:
    """[n * B, ...] -> [n, B, ...]"""
    return Many(tensor.view(n, tensor.shape[0] // n, *tensor.shape[1:]))


def _is_long(value: Many) -> bool:
    """Whether matrices of [n, rows, columns] lie below one another in memory."""
    shape, stride = value.tensor.shape, value.tensor.stride()
    return shape[0] == 1 or stride[0] == shape[1] * stride[1]


def _sums_suffice(call: Call, mask: Sequence[bool], items: Sequence[int]) -> bool:
    return all(not mask[i] or i in call.summed_items for i in items)
