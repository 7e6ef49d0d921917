"""Slices of a fixed length that start where a tensor says: dynamic_slice and dynamic_update."""

from typing import Any

import torch

from softipu.errors import Error
from softipu.poptorch.device import isRunningOnIpu


def dynamic_slice(tensor: torch.Tensor, dim: int, start: torch.Tensor, size: int, step: int) -> torch.Tensor:
    """Elements ``start`` to ``start + size``, every ``step``-th, of a dimension; counting goes on at 0 past its end.

    Args:
        tensor: [..., L, ...]
        dim: dimension of length L.
        start: one integer.
        size: length of the slice; divides L.
        step: 1 or more.

    Returns:
        [..., size / step rounded up, ...]

    Raises:
        Error: arguments of other types, or a size or step that is not possible.
    """
    _check_arguments("dynamic_slice", tensor, dim, start, size)
    if not isinstance(step, int) or isinstance(step, bool):
        raise Error(f"Step must be an integer. dynamic_slice was given {step!r}.")
    if step < 1:
        raise Error(f"Step must be 1 or more. dynamic_slice was given {step}.")
    length = tensor.shape[dim]
    if length % size:
        raise Error(f"The size of the slice ({size}) must be a factor of the slicing dimension ({length}).")
    return tensor.index_select(dim, _positions(start, size, step, length))


def dynamic_update(input: torch.Tensor, src: torch.Tensor, dim: int, start: torch.Tensor, size: int) -> torch.Tensor:
    """A copy of ``input`` with ``src`` in the place of ``size`` elements of a dimension from ``start`` on, which goes on at 0 past its end.

    Args:
        input: [..., L, ...]
        src: [..., size, ...], of the same type.
        dim: dimension of length L.
        start: one integer.
        size: not more than L.

    Returns:
        [..., L, ...]

    Raises:
        Error: arguments of other types, or shapes or types that do not fit together.
    """
    _check_arguments("dynamic_update", input, dim, start, size)
    if not isinstance(src, torch.Tensor):
        raise Error(f"Src argument to dynamic_update must be a torch.tensor. {type(src)} is not supported.")
    if input.dim() != src.dim():
        raise Error(f"input and src tensors must have same dimensionality. ({input.dim()}) vs ({src.dim()})")
    if input.dtype != src.dtype:
        raise Error(f"input and src tensor must have same dtype. ({_on_device(input.dtype)} vs {_on_device(src.dtype)})")
    length = input.shape[dim]
    expected = list(input.shape)
    expected[dim] = size
    if size > length or list(src.shape) != expected:
        raise Error(
            f"dynamic_update cannot write src of shape {list(src.shape)} into {size} of the {length} elements of dimension {dim} of an "
            f"input of shape {list(input.shape)}: src must have the shape {expected}, and size must not exceed the dimension."
        )
    return input.index_copy(dim, _positions(start, size, 1, length), src)


def _check_arguments(name: str, tensor: Any, dim: Any, start: Any, size: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise Error(f"{name} must take a torch.tensor input. {type(tensor)} is not supported.")
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise Error(f"Dimension must be an integer. {name} was given {dim!r}.")
    if not -tensor.dim() <= dim < tensor.dim():
        raise Error(f"Dimension {dim} is out of range: {name} was given a tensor of {tensor.dim()} dimensions.")
    if not isinstance(start, torch.Tensor):
        raise Error(f"Slice start argument to {name} must be a torch.tensor. {type(start)} is not supported.")
    if start.numel() != 1 or start.dtype.is_floating_point or start.dtype.is_complex or start.dtype == torch.bool:
        raise Error(f"Slice start argument to {name} must be one integer, given {start.dtype} of shape {list(start.shape)}.")
    if not isinstance(size, int) or isinstance(size, bool):
        raise Error(f"Size must be an integer. {name} was given {size!r}.")
    if size == 0:
        raise Error(f"The start and end of a slice must be different. {name} was given the size 0.")
    if size < 0:
        raise Error(f"Taking a slice of a tensor with the end less than the start is not supported. {name} was given the size {size}.")


def _positions(start: torch.Tensor, size: int, step: int, length: int) -> torch.Tensor:
    return (start.reshape(()) + torch.arange(0, size, step, device=start.device)).remainder(length)


def _on_device(dtype: torch.dtype) -> torch.dtype:
    return torch.int32 if dtype == torch.int64 and isRunningOnIpu() else dtype
