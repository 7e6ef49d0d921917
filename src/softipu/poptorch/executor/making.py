"""trainingModel and inferenceModel: from a module to the executor that runs it."""

from typing import Optional, Union

import torch
from torch import nn

from softipu.poptorch.executor.executor import PoplarExecutor, in_training
from softipu.poptorch.options import Options


def trainingModel(
    model: Union[nn.Module, PoplarExecutor], options: Optional[Options] = None, optimizer: Optional[torch.optim.Optimizer] = None
) -> PoplarExecutor:
    """A module whose calls do forward, backward and update for a whole host batch.

    Args:
        model: computes its own loss inside forward.
        options: frozen by this; default Options().
        optimizer: default SGD with a learning rate of 0.01.

    Raises:
        RuntimeError: the module is wrapped by another trainingModel.
        Error: options of a wrong type.
        AssertionError, ValueError: an optimizer that the device has no rule for.
    """
    module = unwrapped(model)
    if in_training(module) is not None:
        raise RuntimeError(
            "Model has already been wrapped in 'poptorch.trainingModel'. Call model.destroy() on the model to unwrap before wrapping "
            f"again. The model is a {type(module).__name__}; destroy() on the executor does the same."
        )
    return PoplarExecutor(module, options, training=True, optimizer=optimizer)


def inferenceModel(model: Union[nn.Module, PoplarExecutor], options: Optional[Options] = None) -> PoplarExecutor:
    """A module whose calls run forward for a whole host batch, in the module's own train or eval mode.

    If its parameters are in training too, newer weights are taken over before each run.

    Raises:
        Error: options of a wrong type, or with gradient accumulation.
    """
    return PoplarExecutor(unwrapped(model), options, training=False)


def unwrapped(model: Union[nn.Module, PoplarExecutor]) -> nn.Module:
    """The module behind an executor, or the module itself."""
    return model.model if isinstance(model, PoplarExecutor) else model
