"""Shapes of ops that PyTorch calls data-dependent, but which have fixed shapes on an IPU."""

from typing import Any, Optional, Tuple

import torch
from torch.utils._pytree import tree_map

from softipu.capture._torch_private import fake_kernel, fallback_kernel

aten = torch.ops.aten


@fake_kernel(aten._ctc_loss.default, aten._ctc_loss.Tensor)
def ctc_loss(
    fake_mode: Any, func: Any, log_probs_TBV: torch.Tensor, targets: torch.Tensor, *rest: Any, **named: Any
) -> Tuple[torch.Tensor, ...]:
    """The losses, and the forward variables of the longest targets that may come: all of a row, or with joined rows all of them."""
    frames = log_probs_TBV.shape[0]
    batch = log_probs_TBV.shape[1] if log_probs_TBV.dim() == 3 else 1
    longest = targets.shape[-1]
    with fake_mode:
        return log_probs_TBV.new_empty(batch), log_probs_TBV.new_empty(batch, frames, 2 * longest + 1)


@fake_kernel(aten._ctc_loss_backward.default, aten._ctc_loss_backward.Tensor)
def ctc_loss_backward(
    fake_mode: Any, func: Any, gradient: torch.Tensor, log_probs_TBV: torch.Tensor, *rest: Any, **named: Any
) -> torch.Tensor:
    """One number for each of the log probabilities."""
    with fake_mode:
        return torch.empty_like(log_probs_TBV, memory_format=torch.contiguous_format)


@fake_kernel(aten.multi_margin_loss_backward.default, aten.multilabel_margin_loss_backward.default)
def like_scores(fake_mode: Any, func: Any, gradient: torch.Tensor, scores: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
    """One number for each of the scores; PyTorch runs the kernel on zeros, and has none for half."""
    with fake_mode:
        return torch.empty_like(scores, memory_format=torch.contiguous_format)


@fake_kernel(aten.multi_margin_loss.default)
def multi_margin_loss(
    fake_mode: Any,
    func: Any,
    scores: torch.Tensor,
    target: torch.Tensor,
    p: float = 1,
    margin: float = 1,
    weight: Optional[torch.Tensor] = None,
    reduction: int = 1,
) -> torch.Tensor:
    """One loss for each row, or one for all."""
    with fake_mode:
        return scores.new_empty(() if reduction else target.shape)


@fake_kernel(aten.multilabel_margin_loss_forward.default)
def multilabel_margin_loss(
    fake_mode: Any, func: Any, scores: torch.Tensor, target: torch.Tensor, reduction: int
) -> Tuple[torch.Tensor, torch.Tensor]:
    """One loss for each row, or one for all; and which scores are of labels."""
    with fake_mode:
        return scores.new_empty(() if reduction else target.shape[:-1]), scores.new_empty(target.shape)


# torch 2.0 finds the results' shapes by running these on zeros, and has no kernels for half.
_WITHOUT_SHAPES = (
    aten._cdist_backward.default,
    aten.median.dim,
    aten.max_pool3d_with_indices.default,
    aten.max_pool3d_with_indices_backward.default,
    aten.replication_pad3d_backward.default,
    aten.smooth_l1_loss_backward.default,
    aten.nll_loss2d_forward.default,
    aten.nll_loss2d_backward.default,
)


def by_zeros_in_float(fake_mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
    """What the op returns for float32 in place of half, as half."""
    is_half = any(isinstance(a, torch.Tensor) and a.dtype == torch.float16 for a in args)
    with fake_mode:
        wide = tree_map(lambda a: a.float() if isinstance(a, torch.Tensor) and a.dtype == torch.float16 else a, args)
        results = fallback_kernel(fake_mode, func, wide, kwargs)
        return tree_map(lambda r: r.half() if is_half and r.is_floating_point() else r, results)


def multinomial(fake_mode: Any, func: Any, weights: torch.Tensor, n_draws: int, *rest: Any, **named: Any) -> torch.Tensor:
    """[..., n] of weights -> [..., n_draws] of classes; torch 2.0 runs the op on zeros, which are no weights."""
    with fake_mode:
        return torch.empty((*weights.shape[:-1], n_draws), dtype=torch.int64)


if torch.__version__.startswith("2.0."):
    fake_kernel(aten.multinomial.default)(multinomial)
    fake_kernel(*_WITHOUT_SHAPES)(by_zeros_in_float)
