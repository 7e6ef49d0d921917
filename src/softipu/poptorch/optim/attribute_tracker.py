"""Tells the user about attributes on an optimizer that the device does not know."""

import inspect
from typing import Callable, List, Set

import torch

from softipu.poptorch.log import logger
from softipu.poptorch.optim.optimizer import Optimizer

_NOT_USERS = {"defaults", "state", "param_groups", "ipu_state_is_dirty", *Optimizer._kept}


class AttributeTracker:
    """Takes what the first optimizer has as known, and warns once about each attribute that a later one adds.

    So an LR scheduler, which adds ``initial_lr`` to the groups, is silent when it is made before the model is wrapped.

    Args:
        relaxed: Options.relaxOptimizerAttributesChecks: to the debug log instead.
    """

    def __init__(self, *, relaxed: bool = False) -> None:
        self._log: Callable[..., None] = logger.debug if relaxed else logger.warning
        self._groups: Set[str] = set()
        self._attributes: Set[str] = set()
        self._told: Set[str] = set()
        self._recording = True

    def check(self, optimizer: torch.optim.Optimizer) -> None:
        """Compares ``optimizer`` with the first one that was given."""
        kind = type(optimizer).__name__
        stock = _constructor_arguments(type(optimizer))
        self._compare(self._groups, [name for name in optimizer.defaults if name not in stock], f"default attribute in {kind} optimizer")
        # A leading underscore is torch's own, or ours; so is a step() that an LR scheduler has wrapped.
        attributes = [
            name for name, value in vars(optimizer).items() if not name.startswith("_") and not (name == "step" and callable(value))
        ]
        self._compare(self._attributes, [name for name in attributes if name not in _NOT_USERS], f"optimizer attribute in {kind} optimizer")
        for index, group in enumerate(optimizer.param_groups):
            names = [name for name in group if name != "params" and name not in stock]
            self._compare(self._groups, names, f"group {index} attribute in {kind} optimizer")
        self._recording = False

    def _compare(self, known: Set[str], names: List[str], what: str) -> None:
        extra = [name for name in names if name not in known]
        if self._recording:
            known.update(extra)
        elif extra:
            message = f"Ignoring unexpected {what}: {extra}"
            if message not in self._told:
                self._log(message)
                self._told.add(message)


def _constructor_arguments(cls: type) -> Set[str]:
    """What torch's own constructors take, and so put into defaults and groups."""
    return {
        name
        for one in cls.__mro__
        if one.__module__.startswith("torch.optim.") and "__init__" in vars(one)
        for name in inspect.signature(one.__init__).parameters  # type: ignore[misc]
    }
