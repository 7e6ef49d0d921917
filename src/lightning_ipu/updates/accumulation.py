"""Gradient accumulation that changes from epoch to epoch, as GradientAccumulationScheduler sets it.

The number of accumulated micro-batches is part of a compiled program, so each number has a program of its own. Host batches stay as they
are: they hold the least common multiple of all numbers, and are cut into more or fewer updates.
"""

import math
from typing import Any, List, Optional

from lightning_ipu._lightning import Lightning


class Schedule:
    """G by epoch.

    Args:
        callback: the user's GradientAccumulationScheduler.
    """

    def __init__(self, callback: Any) -> None:
        self._callback = callback

    @property
    def common_multiple(self) -> int:
        """Of every G that the schedule has."""
        multiple = 1
        for number in self._callback.scheduling.values():
            multiple = multiple * number // math.gcd(multiple, number)
        return multiple

    def at(self, epoch: int) -> int:
        """G in an epoch."""
        return int(self._callback.get_accumulate_grad_batches(epoch))

    def take_over(self, trainer: Any) -> None:
        """Makes Lightning count host batches again, after the callback has told it to accumulate."""
        if trainer.accumulate_grad_batches == self.at(trainer.current_epoch):
            trainer.accumulate_grad_batches = 1


def schedule_of(trainer: Any, lightning: Lightning) -> Optional[Schedule]:
    """The schedule of the Trainer's GradientAccumulationScheduler, if it has one that accumulates.

    Raises:
        MisconfigurationException: there are several.
    """
    kind = lightning.name("callbacks", "GradientAccumulationScheduler")
    found: List[Any] = [c for c in trainer.callbacks if isinstance(c, kind) and c.going_to_accumulate_grad_batches()]
    if len(found) > 1:
        raise lightning.misconfiguration(
            f"Trainer(callbacks=...) has {len(found)} GradientAccumulationScheduler, and each sets the same number. Give one with the "
            "whole schedule."
        )
    return Schedule(found[0]) if found else None
