"""What programs use of PopTorch's private module: the executor's class, a model around saving, errors, casts."""

import weakref
from typing import Any, List, Tuple

import torch
from torch import nn

from softipu.errors import Error
from softipu.poptorch.device import isRunningOnIpu
from softipu.poptorch.executor.executor import PoplarExecutor
from softipu.poptorch.executor.making import unwrapped as unwrapIfWrapped
from softipu.poptorch.not_here import refusing
from softipu.poptorch.ops.cast import cast
from softipu.poptorch.weights import wrapped_weights

__all__ = [
    "OptimizerWrapper",
    "PoplarExecutor",
    "cast",
    "createPoptorchError",
    "isDispatchTracing",
    "isRunningOnIpu",
    "rewrapModelIfNecessary",
    "unwrapIfWrapped",
    "unwrapModelIfNecessary",
]

__getattr__ = refusing("_impl")

_Owned = Tuple[torch.Tensor, Tuple[wrapped_weights.Owner, ...]]
_unwrapped: "weakref.WeakKeyDictionary[nn.Module, List[_Owned]]" = weakref.WeakKeyDictionary()


def isDispatchTracing() -> bool:
    """Whether a module's forward is being captured."""
    return isRunningOnIpu()


class OptimizerWrapper(nn.Module):
    """A module with the optimizer that trains it beside it; a call is the module's."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        super().__init__()
        self.model = model
        self.optimizer = optimizer

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.model(*args, **kwargs)


def _pickleRestoreWrapperIfPossible(obj: Any) -> Any:
    """The object itself: what was saved while it was wrapped is a plain module here."""
    return obj


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
