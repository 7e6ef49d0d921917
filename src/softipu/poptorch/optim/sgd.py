"""poptorch.optim.SGD."""

from typing import Any, Iterable, Mapping, Optional

import torch

from softipu.poptorch.log import logger
from softipu.poptorch.optim.arguments import accumulator_type, given, or_default, variable_attributes
from softipu.poptorch.optim.optimizer import Optimizer


class SGD(Optimizer, torch.optim.SGD):
    """Stochastic gradient descent: torch's, with loss scaling, half precision accumulators and gradient clipping.

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        momentum, dampening, weight_decay, nesterov: as in torch.
        maximize, foreach, differentiable: taken by torch's constructor. The device refuses ``maximize`` and has no use for the rest.
        loss_scaling: factor on the loss while gradients are computed; updates are those of the unscaled loss.
        velocity_scaling: factor on the stored velocity, with ``use_combined_accum`` only. Per group.
        use_combined_accum: one tensor for gradient accumulation and velocity instead of two. The software IPU computes both
            alike; on an IPU a change of momentum or weight decay acts one step later with the combined tensor.
        accum_type, velocity_accum_type: storage of the accumulated gradients and of the velocity, float16 or float32.
        max_grad_norm: limit on the 2-norm of all gradients together.

    Raises:
        AssertionError: an accumulator type other than float16 and float32.
    """

    _device_rule = "SGD"

    def __init__(
        self,
        params: Iterable,
        lr: float,
        momentum: Optional[float] = None,
        dampening: Optional[float] = None,
        weight_decay: Optional[float] = None,
        nesterov: Optional[bool] = None,
        maximize: Optional[bool] = None,
        foreach: Optional[bool] = None,
        differentiable: Optional[bool] = None,
        loss_scaling: Optional[float] = None,
        velocity_scaling: Optional[float] = None,
        use_combined_accum: Optional[bool] = None,
        accum_type: Optional[torch.dtype] = None,
        velocity_accum_type: Optional[torch.dtype] = None,
        max_grad_norm: Optional[float] = None,
    ) -> None:
        Optimizer.__init__(self)
        for_torch = given(
            {
                "params": params,
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                "foreach": foreach,
                "differentiable": differentiable,
            }
        )
        own = given(
            {
                "loss_scaling": loss_scaling,
                "velocity_scaling": velocity_scaling,
                "use_combined_accum": use_combined_accum,
                "accum_type": accum_type,
                "velocity_accum_type": velocity_accum_type,
                "max_grad_norm": max_grad_norm,
            }
        )
        torch.optim.SGD.__init__(self, **for_torch)
        self.loss_scaling: float = or_default(loss_scaling, 1.0)
        self.use_combined_accum: bool = or_default(use_combined_accum, False)
        self.accum_type = accumulator_type(accum_type)
        self.velocity_accum_type = accumulator_type(velocity_accum_type)
        self.max_grad_norm: float = or_default(max_grad_norm, float("inf"))
        if self.use_combined_accum:
            self.defaults["velocity_scaling"] = or_default(velocity_scaling, 1.0)
            for group in self.param_groups:
                group.setdefault("velocity_scaling", self.defaults["velocity_scaling"])
        elif velocity_scaling is not None:
            logger.warning(
                f"velocity_scaling={velocity_scaling} is ignored: with use_combined_accum=False the velocity is scaled as the loss is. "
                "Leave it out, or set use_combined_accum=True."
            )
        self.variable_attrs = variable_attributes([*for_torch, *own], self, ["loss_scaling"])

    def set_state_dict(self, state: Mapping[str, Any]) -> None:
        """As the mix-in's; a velocity that comes from a run without dampening says itself whether there were updates before.

        With dampening the device counts updates, for the first one is undamped. States from elsewhere have no such count.
        """
        if state and state.get("ipu_state"):
            tensors = dict(state["ipu_state"])
            for name, velocity in state["ipu_state"].items():
                prefix, _, parameter = name.partition("___")
                if prefix in ("Accl", "Accl1") and bool(velocity.any()):
                    tensors.setdefault(f"Step___{parameter}", torch.tensor(1.0))
            state = {**state, "ipu_state": tensors}
        super().set_state_dict(state)
