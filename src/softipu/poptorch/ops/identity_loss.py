"""identity_loss: marks a value as the loss."""

import torch

from softipu.capture import mark_loss


def identity_loss(x: torch.Tensor, reduction: str) -> torch.Tensor:
    """Marks ``x`` as the loss to differentiate and returns its sum, its mean or itself ('none').

    A non-scalar 'none' differentiates the sum of its elements. Outside an IPU only the reduction is done.

    Raises:
        AssertionError: a reduction other than 'sum', 'mean' or 'none'.
    """
    assert isinstance(reduction, str) and reduction in ("sum", "mean", "none"), (
        f"Unsupported reduction type {reduction!r} of identity_loss; allowed are 'sum', 'mean' and 'none'."
    )
    result = x.sum() if reduction == "sum" else x.mean() if reduction == "mean" else x.clone()
    mark_loss(result, explicit=True)
    return result
