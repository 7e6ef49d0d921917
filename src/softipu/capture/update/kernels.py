"""Which of torch's fused optimizer kernels run on this CPU."""

from functools import lru_cache

import torch

aten = torch.ops.aten


@lru_cache(maxsize=None)
def has_fused(name: str) -> bool:
    """Whether ``aten::<name>`` has a CPU kernel in the installed torch: found out by one call on a tiny tensor.

    Args:
        name: _fused_sgd_, _fused_adam_ or _fused_adamw_.
    """
    operator = getattr(aten, name, None)
    if operator is None:
        return False
    w, g, state = [torch.ones(1)], [torch.ones(1)], [torch.zeros(1)]
    try:
        if name == "_fused_sgd_":
            # fmt: off
            operator.default(
                w, g, state, weight_decay=0.0, momentum=0.5, lr=0.1, dampening=0.0, nesterov=False, maximize=False, is_first_step=False,
            )
            # fmt: on
        else:
            # fmt: off
            operator.default(
                w, g, state, [torch.zeros(1)], [], [torch.ones(())], lr=0.1, beta1=0.9, beta2=0.9, weight_decay=0.0, eps=1e-8,
                amsgrad=False, maximize=False,
            )
            # fmt: on
    except (RuntimeError, NotImplementedError):
        return False
    return True
