"""What is planned."""

from dataclasses import dataclass
from typing import Callable, FrozenSet, Optional, Tuple

from softipu.capture.update import OptimizerSpec
from softipu.graph import Step
from softipu.planner.micro_batches import MicroBatches


@dataclass(frozen=True)
class Subject:
    """A module whose step can be captured for any micro-batch.

    Attributes:
        name: for reports.
        step_at: captures the step for micro-batches of so many items.
        micro_batch: one that can be captured.
        optimizer: of a training step; None for inference.
        containers: paths of modules that are never called, such as lists of modules: no stage can begin there.
        unsupported: ops of the step that PopTorch does not list, with the lines that call them.
    """

    name: str
    step_at: Callable[[int], Step]
    micro_batch: int
    optimizer: Optional[OptimizerSpec] = None
    containers: FrozenSet[str] = frozenset()
    unsupported: Tuple[str, ...] = ()

    def batches(self) -> MicroBatches:
        """Its workloads."""
        return MicroBatches(self.step_at, self.micro_batch, self.containers)
