"""The optimizer of a training executor: its update graph, its numbers, and its state on the device."""

from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch

from softipu.capture.update import Update, build_update, carry_state, hyper_values, new_state, read_optimizer
from softipu.capture.update.spec import OptimizerSpec
from softipu.poptorch.enums import ReductionType
from softipu.poptorch.options import Options
from softipu.runtime import BatchShape, UpdateProgram


class DeviceOptimizer:
    """A snapshot of an optimizer object: what the device uses until the next ``take``.

    Raises (also ``take``):
        AssertionError, ValueError: an optimizer that the device has no rule for, or an option it cannot honour.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.Tensor], options: Options, shape: BatchShape) -> None:
        self._all_parameters = dict(parameters)
        mean = options.Training.accumulation_and_replication_reduction_type == ReductionType.Mean
        self._n_averaged = shape.n_accumulated * shape.n_replicas if mean else 1
        self.update: Optional[Update] = None
        self._used: Dict[str, torch.Tensor] = {}
        self.take(optimizer)

    def take(self, optimizer: torch.optim.Optimizer) -> bool:
        """Reads the optimizer's numbers anew; returns whether the update graph has to be built again."""
        spec = read_optimizer(optimizer, self._all_parameters)
        self.optimizer = optimizer
        self.loss_scale = float(getattr(optimizer, "loss_scaling", None) or 1.0)
        limit = getattr(optimizer, "max_grad_norm", None)
        self._max_grad_norm = float("inf") if limit is None else float(limit)
        self._gradient_scale = 1.0 / (self.loss_scale * self._n_averaged)
        self._hyper = hyper_values(optimizer, spec)
        self.spec: OptimizerSpec = spec
        return self.update is not None and not self._still_fits(self.update)

    def _still_fits(self, update: Update) -> bool:
        scaled, clipped = self._variant()
        return update.spec == self.spec and (update.scaled or not scaled) and (update.clipped or not clipped)

    def _variant(self) -> Tuple[bool, bool]:
        return self._gradient_scale != 1.0, self._max_grad_norm != float("inf")

    def build(self, used: Mapping[str, torch.Tensor]) -> Update:
        """The update graph for the parameters that get a gradient."""
        scaled, clipped = self._variant()
        self._used = dict(used)
        self.update = build_update(self.spec, self._used, form="fused", scaled=scaled, clipped=clipped, dense_gradients=True)
        return self.update

    def program(self) -> UpdateProgram:
        """The update graph as the runtime takes it."""
        assert self.update is not None
        return UpdateProgram(self.update.graph_module, tuple((entry.role, entry.name) for entry in self.update.inputs))

    def hyper(self) -> List[float]:
        """Values of the update's hyper inputs, in its order."""
        assert self.update is not None
        values = list(self._hyper)
        if self.update.scaled:
            values.append(self._gradient_scale)
        if self.update.clipped:
            values.append(self._max_grad_norm)
        return values

    def first_state(self, parameters: Mapping[str, torch.Tensor], old: Optional[Mapping[str, torch.Tensor]]) -> Dict[str, torch.Tensor]:
        """State for the built update: what ``old`` has is kept."""
        assert self.update is not None
        return new_state(self.update, parameters) if not old else carry_state(self.update, old, parameters)

    def numbers(self) -> Dict[str, Any]:
        """The numbers in use, by hyper input."""
        assert self.update is not None
        return dict(zip(self.update.names("hyper"), self.hyper()))
