"""Operations that change no value, only what hardware does with it: the memory of an operation, what is kept for the backward pass."""

from typing import Any

import torch

from softipu.errors import Error


def nop(tensor: torch.Tensor) -> torch.Tensor:
    """``tensor``; on hardware an operation that no optimization removes.

    Raises:
        Error: no tensor.
    """
    if not isinstance(tensor, torch.Tensor):
        raise Error(f"nop must take a torch.tensor argument. {type(tensor)} is not supported.")
    return tensor


def set_available_memory(tensor: torch.Tensor, available_memory_proportion: float) -> torch.Tensor:
    """``tensor``, the result of an operation that on hardware may use this proportion (0 to 1) of a tile's memory for temporary data.

    Raises:
        Error: no tensor, or no number from 0 to 1.
    """
    if not isinstance(tensor, torch.Tensor):
        raise Error(f"You may only set available memory for torch.tensor values. {type(tensor)} is not supported.")
    is_number = isinstance(available_memory_proportion, (int, float)) and not isinstance(available_memory_proportion, bool)
    if not is_number or not 0 <= available_memory_proportion <= 1:
        raise Error(f"Invalid available memory proportion {available_memory_proportion!r}: it must be a number between 0 and 1.")
    return tensor


def recomputationCheckpoint(*tensors: Any) -> Any:
    """The tensors, which on hardware are kept for the backward pass instead of being computed again.

    Args:
        tensors: tensors, or one list or tuple of them.

    Returns:
        One tensor as it is, several as a tuple, a list or tuple as the same type.

    Raises:
        ValueError: something that is no tensor.
    """
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        sequence = tensors[0]
        _check_tensors(sequence)
        return type(sequence)(*sequence) if hasattr(sequence, "_fields") else type(sequence)(sequence)
    _check_tensors(tensors)
    return tensors[0] if len(tensors) == 1 else tensors


def _check_tensors(values: Any) -> None:
    for value in values:
        if not isinstance(value, torch.Tensor):
            raise ValueError(f"All inputs must be tensors; recomputationCheckpoint was given an object of type {type(value).__name__}.")
