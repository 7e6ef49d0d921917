"""Tells the user about attributes on an optimizer that the device does not know."""

from typing import Callable, List, Set

import torch

from softipu.poptorch.log import logger

_NOT_USERS = {"defaults", "state", "param_groups", "variable_attrs"}


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
        self._compare(self._groups, list(optimizer.defaults), f"default attribute in {kind} optimizer")
        # A leading underscore is torch's own, or ours; so is a step() that an LR scheduler has wrapped.
        attributes = [name for name in vars(optimizer) if name not in _NOT_USERS and not name.startswith("_")]
        stock = [name for name in attributes if name == "step" and callable(vars(optimizer)[name])]
        self._compare(self._attributes, [name for name in attributes if name not in stock], f"optimizer attribute in {kind} optimizer")
        for index, group in enumerate(optimizer.param_groups):
            names = [name for name in group if name != "params"]
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
