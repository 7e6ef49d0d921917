"""How many micro-batches a program runs in one call."""

import logging
from typing import Optional

from softipu.graph import Step
from softipu.passes.inexact.batch import CannotBatch, batch, live_bytes
from softipu.runtime.batch import BatchShape
from softipu.runtime.program import Batched

# More values than this do not stay in a processor's caches, and larger calls gain nothing.
_LIVE_BYTES = 32 * 2**20
_log = logging.getLogger("softipu")


def batched(step: Step, shape: BatchShape) -> Optional[Batched]:
    """``step`` for as many micro-batches of a weight update (in inference: of a call) as fit; None where they must run one by one."""
    n_together = shape.n_accumulated * shape.n_replicas if step.training else shape.n_micro_batches
    if n_together == 1 or shape.input_group_size != 1:
        return None
    most = _LIVE_BYTES // max(1, live_bytes(step))
    n = max(d for d in range(1, n_together + 1) if n_together % d == 0 and (d <= most or d == 1))
    if n == 1:
        return None
    try:
        return Batched(batch(step, n), n)
    except CannotBatch as error:
        _log.debug("softipu: micro-batches run one by one: %s", error)
        return None
