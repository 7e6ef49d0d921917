"""Functions that an IPU can compute but whose PyTorch form looks at values on the host first: the same without the look."""

from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Optional

import torch
import torch.distributions
import torch.nn.functional as F

_one_hot, _bincount = F.one_hot, torch.bincount


def one_hot(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """[...] of classes -> [..., num_classes] of 0 and 1; with a fixed number of classes no value is needed beforehand."""
    if num_classes <= 0:
        return _one_hot(tensor, num_classes)  # refused: its shape depends on data
    return (tensor.unsqueeze(-1) == torch.arange(num_classes, device=tensor.device)).to(torch.int64)


def bincount(input: torch.Tensor, weights: Optional[torch.Tensor] = None, minlength: int = 0) -> torch.Tensor:
    """[n] of integers -> [minlength], how often each comes, or the sum of its weights.

    With a fixed length nothing is known beforehand, so numbers from ``minlength`` on are not counted.
    """
    if minlength <= 0:
        return _bincount(input, weights, minlength)  # refused: its shape depends on data
    found = input.unsqueeze(-1) == torch.arange(minlength, device=input.device)
    return found.sum(0) if weights is None else (found * weights.unsqueeze(-1)).sum(0)


SUBSTITUTES: Dict[Callable[..., Any], Callable[..., Any]] = {
    F.one_hot: one_hot,
    torch.bincount: bincount,
    torch.Tensor.bincount: bincount,
}


@contextmanager
def without_value_checks() -> Iterator[None]:
    """torch.distributions look at the values of their arguments to check them; not in here."""
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)
