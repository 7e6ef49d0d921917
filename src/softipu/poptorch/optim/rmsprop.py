"""poptorch.optim.RMSprop."""

from typing import Iterable, Optional

import torch

from softipu.poptorch.optim.arguments import accumulator_type, given, or_default, variable_attributes
from softipu.poptorch.optim.optimizer import Optimizer


class RMSprop(Optimizer, torch.optim.RMSprop):
    """RMSprop: torch's or TensorFlow's, with loss scaling and half precision accumulators.

    Args:
        params: parameters or parameter groups.
        lr, alpha, eps, weight_decay, momentum, centered: as in torch, with its defaults; all groups need the same ``centered``.
        foreach, maximize, differentiable: taken by torch's constructor. The device refuses ``maximize`` and has no use for the rest.
        loss_scaling: factor on the loss while gradients are computed; updates are those of the unscaled loss.
        accum_type: storage of the accumulated gradients, float16 or float32.
        first_order_momentum_accum_type, second_order_momentum_accum_type: storage of the squared average and of the gradient average.
        use_tf_variant: TensorFlow's form: epsilon under the root, squared averages start at 1, learning rate inside the momentum.

    Raises:
        AssertionError: an accumulator type other than float16 and float32.
    """

    _device_rule = "RMSprop"

    def __init__(
        self,
        params: Iterable,
        lr: Optional[float] = None,
        alpha: Optional[float] = None,
        eps: Optional[float] = None,
        weight_decay: Optional[float] = None,
        momentum: Optional[float] = None,
        centered: Optional[bool] = None,
        foreach: Optional[bool] = None,
        maximize: Optional[bool] = None,
        differentiable: Optional[bool] = None,
        loss_scaling: Optional[float] = None,
        accum_type: Optional[torch.dtype] = None,
        first_order_momentum_accum_type: Optional[torch.dtype] = None,
        second_order_momentum_accum_type: Optional[torch.dtype] = None,
        use_tf_variant: Optional[bool] = None,
    ) -> None:
        Optimizer.__init__(self)
        for_torch = given(
            {
                "params": params,
                "lr": lr,
                "alpha": alpha,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "centered": centered,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
            }
        )
        own = given(
            {
                "loss_scaling": loss_scaling,
                "accum_type": accum_type,
                "first_order_momentum_accum_type": first_order_momentum_accum_type,
                "second_order_momentum_accum_type": second_order_momentum_accum_type,
                "use_tf_variant": use_tf_variant,
            }
        )
        torch.optim.RMSprop.__init__(self, **for_torch)
        self.loss_scaling: float = or_default(loss_scaling, 1.0)
        self.accum_type = accumulator_type(accum_type)
        self.first_order_momentum_accum_type = accumulator_type(first_order_momentum_accum_type)
        self.second_order_momentum_accum_type = accumulator_type(second_order_momentum_accum_type)
        self.use_tf_variant: bool = or_default(use_tf_variant, False)
        self.variable_attrs = variable_attributes([*for_torch, *own], self, ["loss_scaling"])
