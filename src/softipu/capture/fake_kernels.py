"""Shapes of ops that PyTorch calls data-dependent, but which have fixed shapes on an IPU."""

from typing import Any, Tuple

import torch

from softipu.capture._torch_private import fake_kernel

aten = torch.ops.aten


@fake_kernel(aten._ctc_loss.default, aten._ctc_loss.Tensor)
def ctc_loss(fake_mode: Any, func: Any, log_probs_TBV: torch.Tensor, targets: torch.Tensor, *rest: Any, **named: Any) -> Tuple[torch.Tensor, ...]:
    """The losses, and the forward variables of the longest targets that may come: all of a row, or with joined rows all of them."""
    frames = log_probs_TBV.shape[0]
    batch = log_probs_TBV.shape[1] if log_probs_TBV.dim() == 3 else 1
    longest = targets.shape[-1]
    with fake_mode:
        return log_probs_TBV.new_empty(batch), log_probs_TBV.new_empty(batch, frames, 2 * longest + 1)


@fake_kernel(aten._ctc_loss_backward.default, aten._ctc_loss_backward.Tensor)
def ctc_loss_backward(fake_mode: Any, func: Any, gradient: torch.Tensor, log_probs_TBV: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
    """One number for each of the log probabilities."""
    with fake_mode:
        return torch.empty_like(log_probs_TBV, memory_format=torch.contiguous_format)
