"""Casts between the types of values that an IPU has."""

import torch

DEVICE_TYPES = (torch.float32, torch.float16, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


def cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """``tensor`` as ``dtype``.

    Raises:
        ValueError: a type that an IPU does not have.
    """
    if dtype not in DEVICE_TYPES:
        raise ValueError(f"Cannot cast to {dtype}; the types of an IPU are {', '.join(map(str, DEVICE_TYPES))}.")
    return tensor.to(dtype)
