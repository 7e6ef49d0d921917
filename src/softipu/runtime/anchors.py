"""Inner values that a call returns besides the outputs: of micro-batches and of weight updates."""

from dataclasses import dataclass
from typing import Dict, List, Optional, Protocol, Sequence

import torch

from softipu.runtime.batch import BatchShape
from softipu.runtime.device_memory import DeviceMemory
from softipu.runtime.outputs import Collector, OutputRule


class Observer(Protocol):
    """Looks on while a program runs. Tensors are the program's own: to keep one, copy it."""

    def begins(self) -> None:
        """A call begins."""
        ...

    def micro_batch(self, iteration: int, accumulation: int, replica: int, anchored: Sequence[torch.Tensor]) -> None:
        """A micro-batch is done; ``anchored`` are the step's ANCHOR outputs."""
        ...

    def before_update(self, iteration: int, gradients: Sequence[torch.Tensor]) -> None:
        """All gradients of an update are added up."""
        ...

    def after_update(self, iteration: int, memory: DeviceMemory) -> None:
        """Parameters and optimizer state are new."""
        ...


@dataclass(frozen=True)
class UpdateValue:
    """A value of a weight update.

    Attributes:
        kind: ``gradient`` (the sum that enters the update), ``parameter`` or ``state`` (after it), or ``number``.
        name: of the parameter, the state or the number.
    """

    kind: str
    name: str


class AnchorRecorder:
    """An Observer that keeps anchored values as output rules say.

    Args:
        shape: micro-batches per call.
        of_steps: one rule for each ANCHOR output of the step.
        of_updates: values of updates, each with its rule. An update's value counts as that of its last accumulation step,
            once for every replica.
        gradients: names of the gradients in their order.

    Attributes:
        numbers: values of those of kind ``number``, for the call to come.
    """

    def __init__(
        self,
        shape: BatchShape,
        of_steps: Sequence[OutputRule],
        of_updates: Sequence[UpdateValue],
        update_rules: Sequence[OutputRule],
        gradients: Sequence[str],
    ) -> None:
        self._shape = shape
        self._of_steps, self._of_updates = list(of_steps), list(zip(of_updates, update_rules))
        self._positions = {name: i for i, name in enumerate(gradients)}
        self.numbers: Dict[str, torch.Tensor] = {}
        self.begins()

    def begins(self) -> None:
        self._steps = [Collector(rule, self._shape, [True]) for rule in self._of_steps]
        self._updates = [Collector(rule, self._shape, [True]) for _, rule in self._of_updates]

    def micro_batch(self, iteration: int, accumulation: int, replica: int, anchored: Sequence[torch.Tensor]) -> None:
        for collector, value in zip(self._steps, anchored):
            collector.add(iteration, accumulation, replica, [value])

    def before_update(self, iteration: int, gradients: Sequence[torch.Tensor]) -> None:
        for collector, (source, _) in zip(self._updates, self._of_updates):
            if source.kind == "gradient":
                self._keep(collector, iteration, gradients[self._positions[source.name]])

    def after_update(self, iteration: int, memory: DeviceMemory) -> None:
        held: Dict[str, Dict[str, torch.Tensor]] = {
            "parameter": memory.parameters,
            "state": memory.optimizer_state,
            "number": self.numbers,
        }
        for collector, (source, _) in zip(self._updates, self._of_updates):
            if source.kind in held:
                self._keep(collector, iteration, held[source.kind][source.name])

    def _keep(self, collector: Collector, iteration: int, value: torch.Tensor) -> None:
        for replica in range(self._shape.n_replicas):
            collector.add(iteration, self._shape.n_accumulated - 1, replica, [value])

    def results(self) -> List[Optional[torch.Tensor]]:
        """Values of the last call: those of steps, then those of updates; None where the rule kept none."""
        return [collector.result_or_none() for collector in [*self._steps, *self._updates]]
