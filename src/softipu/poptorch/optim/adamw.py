"""poptorch.optim.AdamW."""

from typing import Iterable, Optional, Tuple

import torch

from softipu.poptorch.optim.arguments import accumulator_type, given, or_default, variable_attributes
from softipu.poptorch.optim.optimizer import Optimizer


class AdamW(Optimizer, torch.optim.AdamW):
    """Adam with decoupled weight decay: torch's AdamW, with loss scaling, half precision accumulators and gradient clipping.

    Args:
        params: parameters or parameter groups.
        lr, betas, eps, weight_decay: as in torch, with its defaults.
        amsgrad, maximize: taken here, refused by the device.
        foreach, capturable, differentiable, fused: taken by torch's constructor; the device has no use for them.
        loss_scaling: factor on the loss while gradients are computed; updates are those of the unscaled loss.
        bias_correction: accepted and kept; as in PopTorch it changes no number.
        accum_type: storage of the accumulated gradients, float16 or float32.
        first_order_momentum_accum_type, second_order_momentum_accum_type: storage of the two moments.
        max_grad_norm: limit on the 2-norm of all gradients together.

    Raises:
        AssertionError: an accumulator type other than float16 and float32.
    """

    _device_rule = "AdamW"

    def __init__(
        self,
        params: Iterable,
        lr: Optional[float] = None,
        betas: Optional[Tuple[float, float]] = None,
        eps: Optional[float] = None,
        weight_decay: Optional[float] = None,
        amsgrad: Optional[bool] = None,
        maximize: Optional[bool] = None,
        foreach: Optional[bool] = None,
        capturable: Optional[bool] = None,
        differentiable: Optional[bool] = None,
        fused: Optional[bool] = None,
        loss_scaling: Optional[float] = None,
        bias_correction: Optional[bool] = None,
        accum_type: Optional[torch.dtype] = None,
        first_order_momentum_accum_type: Optional[torch.dtype] = None,
        second_order_momentum_accum_type: Optional[torch.dtype] = None,
        max_grad_norm: Optional[float] = None,
    ) -> None:
        Optimizer.__init__(self)
        for_torch = given(
            {
                "params": params,
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
                "fused": fused,
            }
        )
        own = given(
            {
                "loss_scaling": loss_scaling,
                "bias_correction": bias_correction,
                "accum_type": accum_type,
                "first_order_momentum_accum_type": first_order_momentum_accum_type,
                "second_order_momentum_accum_type": second_order_momentum_accum_type,
                "max_grad_norm": max_grad_norm,
            }
        )
        torch.optim.AdamW.__init__(self, **for_torch)
        self.loss_scaling: float = or_default(loss_scaling, 1.0)
        self.bias_correction: bool = or_default(bias_correction, True)
        self.accum_type = accumulator_type(accum_type)
        self.first_order_momentum_accum_type = accumulator_type(first_order_momentum_accum_type)
        self.second_order_momentum_accum_type = accumulator_type(second_order_momentum_accum_type)
        self.max_grad_norm: float = or_default(max_grad_norm, float("inf"))
        self.variable_attrs = variable_attributes([*for_torch, *own], self, ["loss_scaling"])
