"""poptorch.optim.LAMB."""

import math
from typing import Any, Callable, Dict, Iterable, Optional, Tuple

import torch

from softipu.poptorch.optim.arguments import accumulator_type, given, or_default, variable_attributes
from softipu.poptorch.optim.optimizer import Optimizer

_LARGEST_WEIGHT_NORM = 65500.0  # a little below the largest float16


class LAMB(Optimizer, torch.optim.Optimizer):
    """LAMB (You et al. 2020): Adam's direction with a length in proportion to the norm of each weight.

    Args:
        params: parameters or parameter groups.
        lr: learning rate, 1e-3.
        betas: decay of the two moments, (0.9, 0.999).
        eps: added to the denominator, 1e-8.
        weight_decay: of the weights, 1e-2.
        bias_correction: of the two moments, True.
        loss_scaling: factor on the loss while gradients are computed; updates are those of the unscaled loss.
        max_weight_norm: limit on the weight norm that counts, 65500.
        accum_type: storage of the accumulated gradients, float16 or float32.
        first_order_momentum_accum_type, second_order_momentum_accum_type: storage of the two moments.

    Raises:
        AssertionError: an accumulator type other than float16 and float32.
    """

    _device_rule = "LAMB"

    def __init__(
        self,
        params: Iterable,
        lr: Optional[float] = None,
        betas: Optional[Tuple[float, float]] = None,
        eps: Optional[float] = None,
        weight_decay: Optional[float] = None,
        bias_correction: Optional[bool] = None,
        loss_scaling: Optional[float] = None,
        max_weight_norm: Optional[float] = None,
        accum_type: Optional[torch.dtype] = None,
        first_order_momentum_accum_type: Optional[torch.dtype] = None,
        second_order_momentum_accum_type: Optional[torch.dtype] = None,
    ) -> None:
        Optimizer.__init__(self)
        explicit = given(
            {
                "params": params,
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "bias_correction": bias_correction,
                "loss_scaling": loss_scaling,
                "max_weight_norm": max_weight_norm,
                "accum_type": accum_type,
                "first_order_momentum_accum_type": first_order_momentum_accum_type,
                "second_order_momentum_accum_type": second_order_momentum_accum_type,
            }
        )
        self.max_weight_norm: float = or_default(max_weight_norm, _LARGEST_WEIGHT_NORM)
        defaults: Dict[str, Any] = {
            "lr": or_default(lr, 1e-3),
            "betas": or_default(betas, (0.9, 0.999)),
            "eps": or_default(eps, 1e-8),
            "weight_decay": or_default(weight_decay, 1e-2),
            "max_weight_norm": self.max_weight_norm,
        }
        torch.optim.Optimizer.__init__(self, params, defaults)
        self.bias_correction: bool = or_default(bias_correction, True)
        self.loss_scaling: float = or_default(loss_scaling, 1.0)
        self.accum_type = accumulator_type(accum_type)
        self.first_order_momentum_accum_type = accumulator_type(first_order_momentum_accum_type)
        self.second_order_momentum_accum_type = accumulator_type(second_order_momentum_accum_type)
        self.variable_attrs = variable_attributes(explicit, self, ["loss_scaling"])

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One update on the host from the parameters' ``.grad``: the reference for the device.

        Args:
            closure: computes the loss anew, with gradients.

        Returns:
            The closure's loss, or None.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)
        return loss

    def _update(self, weight: torch.Tensor, group: Dict[str, Any]) -> None:
        state = self.state[weight]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(weight), exp_avg_sq=torch.zeros_like(weight))
        state["step"] += 1
        beta1, beta2 = group["betas"]
        first, second = state["exp_avg"], state["exp_avg_sq"]
        first.lerp_(weight.grad, 1 - beta1)
        second.mul_(beta2).addcmul_(weight.grad, weight.grad, value=1 - beta2)
        correction1 = 1 - beta1 ** state["step"] if self.bias_correction else 1.0
        correction2 = 1 - beta2 ** state["step"] if self.bias_correction else 1.0
        change = first / (second.sqrt().div_(math.sqrt(correction2)).add_(group["eps"]).mul_(correction1))
        change.add_(weight, alpha=group["weight_decay"])
        limit = or_default(group.get("max_weight_norm"), _LARGEST_WEIGHT_NORM)
        weight_norm, change_norm = min(float(weight.norm()), limit), float(change.norm())
        trust = weight_norm / change_norm if weight_norm and change_norm else 1.0
        weight.add_(change, alpha=-group["lr"] * trust)
