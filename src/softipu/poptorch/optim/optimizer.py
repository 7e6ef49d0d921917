"""The mix-in that all of PopTorch's optimizers share: state that lives on a device."""

from typing import Any, Callable, Dict, Mapping, Optional

import torch

from softipu.poptorch.log import logger

IpuState = Dict[str, Any]
"""``{"ipu_state": tensors by name, "ipu_param": numbers by name}``, or None for both when there is none."""


class Optimizer:
    """State of an optimizer on a device, next to torch's own on the host.

    ``state_dict()`` is torch's with two more entries: ``ipu_state``, the tensors on the device, and ``ipu_param``, the numbers
    it uses. Both are None before the first compilation. Reading pulls them from the device; what is loaded waits for the next
    use of the device, and is what reading shows until then.
    """

    # How torch's __getstate__ leaves the rest of an optimizer behind, these would be lost by copy and pickle.
    _kept = (
        "accum_type",
        "bias_correction",
        "first_order_momentum_accum_type",
        "loss_scaling",
        "max_grad_norm",
        "max_weight_norm",
        "second_order_momentum_accum_type",
        "use_combined_accum",
        "use_tf_variant",
        "variable_attrs",
        "velocity_accum_type",
    )
    # Defaults for objects that were unpickled: a device is never pickled.
    _pull: Optional[Callable[[], Optional[IpuState]]] = None
    _push: Optional[Callable[[IpuState], None]] = None

    def __init__(self) -> None:
        self._state_dict: IpuState = {"ipu_state": None, "ipu_param": None}
        self.ipu_state_is_dirty = False
        """Whether a loaded state waits for a device."""

    def state_dict(self) -> Dict[str, Any]:
        """``ipu_state``, ``ipu_param``, and torch's ``state`` and ``param_groups``."""
        return self.get_state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Loads what ``state_dict()`` of a PopTorch optimizer returned.

        Raises:
            RuntimeError: an empty state, or one without ``ipu_state`` and ``ipu_param``; nothing is changed.
            ValueError: torch's, for parameter groups that do not match.
        """
        _check(state_dict)
        torch.optim.Optimizer.load_state_dict(self, dict(state_dict))  # type: ignore[arg-type]  # also for LR schedulers
        self.set_state_dict(state_dict)

    def get_state_dict(self) -> Dict[str, Any]:
        """As ``state_dict()``."""
        self._bring_up_to_date()
        own = torch.optim.Optimizer.state_dict(self)  # type: ignore[arg-type]
        return {"ipu_state": _shallow(self._state_dict["ipu_state"]), "ipu_param": _shallow(self._state_dict["ipu_param"]), **own}

    def set_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes only ``ipu_state`` and ``ipu_param``. RuntimeError: as ``load_state_dict``."""
        _check(state)
        self._state_dict = {"ipu_state": _shallow(state["ipu_state"]), "ipu_param": _shallow(state["ipu_param"])}
        self.ipu_state_is_dirty = self.has_state()

    def has_state(self) -> bool:
        """Whether there is a state from a device."""
        return self._state_dict["ipu_state"] is not None and self._state_dict["ipu_param"] is not None

    def _attach_device(self, pull: Callable[[], Optional[IpuState]], push: Callable[[IpuState], None]) -> None:
        """Called by an executor that has a compiled program with this optimizer.

        Args:
            pull: both dictionaries with copies of what the device has, or None when nothing changed since the last pull.
            push: takes both dictionaries. Names that are missing keep what the device has, unknown ones are ignored.
        """
        self._pull, self._push = pull, push

    def _detach_device(self) -> None:
        """Called before the device goes: its state is kept here, and waits for the next device."""
        if self._pull is None:
            return
        self._push_if_waiting()
        self._bring_up_to_date()
        self._pull = self._push = None
        self.ipu_state_is_dirty = self.has_state()

    def _bring_up_to_date(self) -> None:
        if self._pull is None:
            return
        found = None if self.ipu_state_is_dirty else self._pull()
        if found is None:
            logger.debug("Using cached optimiser state dict")
        else:
            self._state_dict = found

    def _push_if_waiting(self) -> None:
        """Called by the executor before it uses the state on the device."""
        if self.ipu_state_is_dirty and self._push is not None:
            self._push(self._state_dict)
            self.ipu_state_is_dirty = False

    def __getstate__(self) -> Dict[str, Any]:
        self._bring_up_to_date()
        state = torch.optim.Optimizer.__getstate__(self)  # type: ignore[arg-type]
        state.update({name: self.__dict__[name] for name in self._kept if name in self.__dict__})
        state["_state_dict"] = self._state_dict
        state["ipu_state_is_dirty"] = self.has_state()  # whoever uses the copy has to upload it
        return state


def _check(state: Mapping[str, Any]) -> None:
    if not state:
        raise RuntimeError("Cannot load optimizer state dictionary because it is empty. Give what state_dict() returned.")
    if "ipu_state" not in state or "ipu_param" not in state:
        raise RuntimeError(
            "Only IPU optimizer states can be loaded onto the IPU. "
            f"This one has the keys {sorted(map(str, state))}; a PopTorch optimizer's state_dict() also has ipu_state and ipu_param."
        )


def _shallow(values: Optional[Mapping[str, torch.Tensor]]) -> Optional[Dict[str, torch.Tensor]]:
    return None if values is None else dict(values)
