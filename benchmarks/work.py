"""How much arithmetic a weight update takes, whatever runs it."""

from typing import Optional

from workloads import Workload


def matmul_flops(workload: Workload) -> Optional[float]:
    """FLOPs of matrix products and convolutions, forward and backward, of one weight update; None where PyTorch cannot count them.

    The optimizer and element-wise work are not in it, so the share of the peak that follows is a lower bound.
    """
    try:
        from torch.utils.flop_counter import FlopCounterMode
    except ImportError:  # before PyTorch 2.1
        return None
    module = workload.module().train()
    x, y = workload.samples(workload.batch_size)
    with FlopCounterMode(display=False) as counter:
        module(x, y).backward()
    return float(counter.get_total_flops()) * workload.n_accumulated
