"""``poptorch.testing.allclose``: comparing results of models."""

from typing import Any

import torch


def allclose(ref: Any, other: Any) -> bool:
    """Whether two structures agree: same kinds and lengths of tuples and lists, same shapes and dtypes, close values.

    Raises:
        AssertionError: ``ref`` holds something else than tensors, tuples and lists.
    """
    if isinstance(ref, torch.Tensor):
        if not isinstance(other, torch.Tensor) or ref.shape != other.shape or ref.dtype != other.dtype:
            return False
        return torch.allclose(other, ref)
    assert isinstance(ref, (tuple, list)), f"poptorch.testing.allclose compares tensors, tuples and lists, given a {type(ref).__name__}"
    kind = tuple if isinstance(ref, tuple) else list
    return isinstance(other, kind) and len(ref) == len(other) and all(map(allclose, ref, other))
