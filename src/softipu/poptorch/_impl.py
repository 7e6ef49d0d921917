"""What programs use of PopTorch's private module: a model around saving, errors, casts."""

import weakref
from typing import List, Tuple

import torch
from torch import nn

from softipu.errors import Error
from softipu.poptorch.device import isRunningOnIpu
from softipu.poptorch.ops.cast import cast
from softipu.poptorch.weights import wrapped_weights

__all__ = ["cast", "createPoptorchError", "isRunningOnIpu", "rewrapModelIfNecessary", "unwrapModelIfNecessary"]

_Owned = Tuple[torch.Tensor, Tuple[wrapped_weights.Owner, ...]]
_unwrapped: "weakref.WeakKeyDictionary[nn.Module, List[_Owned]]" = weakref.WeakKeyDictionary()


def createPoptorchError(message: str) -> Error:
    """The error that PopTorch raises for a misuse."""
    return Error(message)


def unwrapModelIfNecessary(model: nn.Module) -> None:
    """Makes a module in training a plain one with its newest weights, until ``rewrapModelIfNecessary``."""
    owned = [(tensor, wrapped_weights.owners_of(tensor)) for tensor in [*model.parameters(), *model.buffers()]]
    taken = [(tensor, owners) for tensor, owners in owned if owners]
    for tensor, owners in taken:
        wrapped_weights.bring_up_to_date(tensor)
        for owner in owners:
            wrapped_weights.unwrap([tensor], owner)
    if taken:
        _unwrapped[model] = taken


def rewrapModelIfNecessary(model: nn.Module) -> None:
    """Undoes ``unwrapModelIfNecessary``: reads of weights look at the device again."""
    for tensor, owners in _unwrapped.pop(model, []):
        for owner in owners:
            wrapped_weights.wrap([tensor], owner)
