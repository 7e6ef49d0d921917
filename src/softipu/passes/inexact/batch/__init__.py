"""Several micro-batches as one call."""

from softipu.passes.inexact.batch.batch import CannotBatch, batch
from softipu.passes.inexact.batch.live_memory import live_bytes

__all__ = ["CannotBatch", "batch", "live_bytes"]
