"""Losses whose PyTorch form looks at values, or leaves rows out, on the host: the same with fixed shapes."""

import math
from typing import Any, Callable, Dict, Optional, Sequence, Union

import torch
import torch.nn.functional as F

_cross_entropy, _ctc_loss = F.cross_entropy, F.ctc_loss


def cross_entropy(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: Optional[torch.Tensor] = None,
    size_average: Optional[bool] = None,
    ignore_index: int = -100,
    reduce: Optional[bool] = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """[N, C, ...] of logits, [N, ...] of classes -> the loss; torch 2.0 takes out rows that are ignored, here they count as zero."""
    is_smoothed = label_smoothing > 0.0 and not target.is_floating_point() and size_average is None and reduce is None
    if not is_smoothed or not torch.__version__.startswith("2.0."):
        return _cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)
    classes = 1 if input.dim() > 1 else 0
    log_p = F.log_softmax(input, classes)
    kept = target != ignore_index
    safe = torch.where(kept, target, torch.zeros_like(target))
    shape = [1] * input.dim()
    shape[classes] = input.shape[classes]
    weights = torch.ones(shape, dtype=input.dtype) if weight is None else weight.reshape(shape)
    of_target = log_p.gather(classes, safe.unsqueeze(classes)).squeeze(classes)
    own_weight = weights.expand_as(log_p).gather(classes, safe.unsqueeze(classes)).squeeze(classes) * kept
    smooth = -(log_p * weights).sum(classes) * kept
    losses = -of_target * own_weight * (1 - label_smoothing) + smooth * (label_smoothing / input.shape[classes])
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / own_weight.sum()


def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Union[torch.Tensor, Sequence[int]],
    target_lengths: Union[torch.Tensor, Sequence[int]],
    *rest: Any,
    **named: Any,
) -> torch.Tensor:
    """As PyTorch's, with lengths that are lists taken for tensors."""
    of_inputs, of_targets = (n if isinstance(n, torch.Tensor) else torch.tensor(list(n)) for n in (input_lengths, target_lengths))
    return _ctc_loss(log_probs, targets, of_inputs, of_targets, *rest, **named)


def gaussian_nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    var: Union[torch.Tensor, float],
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    """Half of log(var) + (input - target)^2 / var, without the look at whether a variance is negative."""
    if not isinstance(var, torch.Tensor):
        var = torch.full_like(input, var)
    if var.shape != input.shape and var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    bounded = var.clone()
    with torch.no_grad():  # the floor has no gradient, as in PyTorch
        bounded.clamp_(min=eps)
    losses = 0.5 * (torch.log(bounded) + (input - target) ** 2 / bounded)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


LOSS_SUBSTITUTES: Dict[Callable[..., Any], Callable[..., Any]] = {
    F.cross_entropy: cross_entropy,
    F.ctc_loss: ctc_loss,
    F.gaussian_nll_loss: gaussian_nll_loss,
}
