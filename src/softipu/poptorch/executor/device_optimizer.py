"""The optimizer of a training executor: its update graph, its numbers, and its state on the device."""

import logging
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

import torch

from softipu.capture.update import Update, build_update, carry_state, hyper_values, new_state, read_optimizer
from softipu.capture.update.spec import OptimizerSpec
from softipu.errors import Error
from softipu.poptorch.debugging.optimizer_log import OptimizerLog
from softipu.poptorch.enums import MeanReductionStrategy, ReductionType
from softipu.poptorch.log import logger
from softipu.poptorch.optim import Optimizer
from softipu.poptorch.optim.attribute_tracker import AttributeTracker
from softipu.poptorch.optim.ipu_param import numbers_to_param, param_to_numbers
from softipu.poptorch.options import Options
from softipu.poptorch.weights.loss_scaling import UPDATE_FACTOR, AutomaticLossScaling
from softipu.runtime import BatchShape, DeviceMemory, UpdateProgram
from softipu.runtime.accumulation import Accumulation, FloatSum, HalfRunningMean


class DeviceOptimizer:
    """A snapshot of an optimizer object: what the device uses until the next ``take``.

    Raises (also ``take``):
        AssertionError, ValueError: an optimizer that the device has no rule for, or an option it cannot honour.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.Tensor], options: Options, shape: BatchShape
    ) -> None:
        self._all_parameters = dict(parameters)
        mean = options.Training.accumulation_and_replication_reduction_type == ReductionType.Mean
        self._n_averaged = shape.n_accumulated * shape.n_replicas if mean else 1
        self._log = OptimizerLog()
        self._tracker = AttributeTracker(relaxed=options._relax_optimizer_checks)
        self._options = options
        self.automatic: Optional[AutomaticLossScaling] = None
        self._memory: Optional[DeviceMemory] = None
        self._rebuild: Optional[Callable[[], None]] = None
        self._is_pulled = False
        self.update: Optional[Update] = None
        self._spec_before: Optional[OptimizerSpec] = None
        self.optimizer: torch.optim.Optimizer = optimizer
        self.take(optimizer)
        if options._Popart.options.get("automaticLossScalingSettings.enabled"):
            self.automatic = AutomaticLossScaling(self.loss_scale)
        if optimizer.state and not isinstance(optimizer, Optimizer):
            logger.warning(
                "The state of this torch.optim.%s (%d parameters) is not used: PopTorch begins with a new one. "
                "Use poptorch.optim.%s, whose state_dict has the device's state, to go on from a state.",
                *(type(optimizer).__name__, len(optimizer.state), type(optimizer).__name__),
            )

    def take(self, optimizer: torch.optim.Optimizer) -> bool:
        """Reads the optimizer's numbers anew; returns whether the update graph has to be built again."""
        if optimizer is self.optimizer:
            self.upload()  # before its numbers, which are newer, are read
        self._tracker.check(optimizer)
        spec = read_optimizer(optimizer, self._all_parameters)
        hyper = hyper_values(optimizer, spec)
        self._use_running_mean(spec)
        if optimizer is not self.optimizer:
            self.release()
            self.optimizer = optimizer
        self.loss_scale = self.automatic.scale if self.automatic else float(getattr(optimizer, "loss_scaling", None) or 1.0)
        limit = getattr(optimizer, "max_grad_norm", None)
        self._max_grad_norm = float("inf") if limit is None else float(limit)
        self._hyper = hyper
        self.spec: OptimizerSpec = spec
        self._is_pulled = False
        return self.update is not None and not self._still_fits(self.update)

    def _use_running_mean(self, spec: OptimizerSpec) -> None:
        """float16 accumulators keep running means, since a sum could overflow; the options say so, though they are frozen."""
        training = self._options.Training
        strategy = training.meanAccumulationAndReplicationReductionStrategy
        if spec.accum_type != torch.float16 or spec.use_combined_accum or strategy == MeanReductionStrategy.Running:
            return
        if self.update is not None:
            raise ValueError(
                "This optimizer has accum_type=torch.float16, which needs the mean reduction strategy "
                "poptorch.MeanReductionStrategy.Running, but the model is already compiled with "
                f"{MeanReductionStrategy(strategy).name}. Choose it before compiling: "
                "Options.Training.setMeanAccumulationAndReplicationReductionStrategy, or destroy() the model first."
            )
        training._values["meanAccumulationAndReplicationReductionStrategy"] = MeanReductionStrategy.Running

    def accumulation(self, shape: BatchShape, gradients: Iterable[torch.dtype], *, is_grouped: bool) -> Optional[Accumulation]:
        """How gradients of these types are added up; None for the runtime's own way.

        Raises:
            Error: float16 accumulators, or a rule with norms over a whole parameter, for parameters that differ between replicas.
        """
        if is_grouped and (self.spec.accum_type == torch.float16 or self.spec.rule == "LAMB" or self._max_grad_norm != float("inf")):
            raise Error(
                "Parameters with replicaGrouping are trained by optimizers that treat every element alike: no LAMB, no max_grad_norm and "
                "no float16 accumulators."
            )
        if is_grouped:
            return None
        if self.spec.accum_type == torch.float16:
            return HalfRunningMean(shape)
        return FloatSum() if torch.float16 in set(gradients) and shape.n_accumulated * shape.n_replicas > 1 else None

    def adjust_loss_scale(self) -> None:
        """After a call: automatic loss scaling takes what it has seen into account."""
        if self.automatic is not None:
            self.loss_scale = self.automatic.adjust()

    @property
    def _gradient_scale(self) -> float:
        return 1.0 / (self.loss_scale * self._n_averaged)

    def _still_fits(self, update: Update) -> bool:
        scaled, clipped = self._variant()
        return update.spec == self.spec and (update.scaled or not scaled) and (update.clipped or not clipped)

    def _variant(self) -> Tuple[bool, bool]:
        return self._gradient_scale != 1.0 or self.automatic is not None, self._max_grad_norm != float("inf")

    def build(self, used: Mapping[str, torch.Tensor], form: Callable[[str], str]) -> Update:
        """The update graph for the parameters that get a gradient; ``form`` says which form of a rule's graph the engine takes."""
        scaled, clipped = self._variant()
        self._spec_before = self.update.spec if self.update is not None else None
        self.update = build_update(self.spec, used, form=form(self.spec.rule), scaled=scaled, clipped=clipped, dense_gradients=True)
        return self.update

    def program(self) -> UpdateProgram:
        """The update graph as the runtime takes it."""
        assert self.update is not None
        return UpdateProgram(self.update.graph_module, tuple((entry.role, entry.name) for entry in self.update.inputs), self.update.form)

    def hyper(self) -> List[float]:
        """Values of the update's hyper inputs, in its order."""
        assert self.update is not None
        values = list(self._hyper)
        if self.update.scaled:
            values.append(self._gradient_scale)
        if self.update.clipped:
            values.append(self._max_grad_norm)
        return values

    def number_names(self) -> Tuple[str, ...]:
        """Names of the optimizer's numbers on the device."""
        assert self.update is not None
        return tuple(numbers_to_param(self.update.spec, self._numbers(), self.loss_scale))

    def first_state(self, parameters: Mapping[str, torch.Tensor], old: Optional[Mapping[str, torch.Tensor]]) -> Dict[str, torch.Tensor]:
        """State for the built update: what ``old`` has is kept, unless it belongs to another kind of optimizer."""
        assert self.update is not None
        return new_state(self.update, parameters) if not old else carry_state(self.update, old, parameters, old_spec=self._spec_before)

    # The state as the optimizer object sees it

    def log_numbers(self) -> None:
        """Says in the debug log which numbers the device uses from now on, if they are others than before."""
        if logger.isEnabledFor(logging.DEBUG):
            self._log.update(self.optimizer, self.spec.rule, self.loss_scale)

    def use(self, memory: DeviceMemory, rebuild: Callable[[], None]) -> None:
        """Lets a PopTorch optimizer read the state in ``memory``, and write it by ``upload``.

        Args:
            memory: the device's.
            rebuild: called when ``self.spec`` has changed: builds the update again, and gives it to the program.
        """
        self._memory, self._rebuild = memory, rebuild
        self._is_pulled = False
        if isinstance(self.optimizer, Optimizer):
            self.optimizer._attach_device(self._pull, self._push)

    def is_waiting(self) -> bool:
        """Whether a PopTorch optimizer has loaded a state that is not on the device yet."""
        return isinstance(self.optimizer, Optimizer) and self.optimizer.ipu_state_is_dirty

    def upload(self) -> None:
        """Writes a state that waits to the device."""
        if isinstance(self.optimizer, Optimizer):
            self.optimizer._push_if_waiting()

    def bring_host_up_to_date(self) -> None:
        """Lets a PopTorch optimizer take what the device has now."""
        if isinstance(self.optimizer, Optimizer):
            self.optimizer._bring_up_to_date()

    def release(self) -> None:
        """Leaves the state with the optimizer object, before the device goes or another optimizer comes."""
        if isinstance(self.optimizer, Optimizer):
            self.optimizer._detach_device()

    def has_run(self) -> None:
        """The device's state is newer than what the optimizer object has."""
        self._is_pulled = False

    def _pull(self) -> Optional[Dict[str, Any]]:
        if self._is_pulled or self._memory is None or self.update is None:
            return None
        self._is_pulled = True
        logger.debug("Writing optimiser state tensors from IPU to host.")
        state = {name: tensor.detach().clone() for name, tensor in self._memory.optimizer_state.items()}
        if self.automatic is not None:
            state[UPDATE_FACTOR] = torch.tensor(self.automatic.factor)
        return {"ipu_state": state, "ipu_param": numbers_to_param(self.update.spec, self._numbers(), self.loss_scale)}

    def _push(self, values: Mapping[str, Any]) -> None:
        assert self._memory is not None and self.update is not None
        logger.debug("Writing optimiser state tensors from host to IPU memory")
        if self.automatic is not None and UPDATE_FACTOR in values["ipu_state"]:
            self.automatic.factor = float(values["ipu_state"][UPDATE_FACTOR])
        with torch.no_grad():
            for name, tensor in values["ipu_state"].items():
                if name in self._memory.optimizer_state:
                    self._memory.optimizer_state[name].copy_(tensor)
        spec, numbers, self.loss_scale = param_to_numbers(self.update.spec, values["ipu_param"], self._numbers(), self.loss_scale)
        self.spec = spec
        if not self._still_fits(self.update):
            assert self._rebuild is not None
            self._rebuild()
        self._hyper = tuple(numbers[name] for name in self.update.hyper)
        self._is_pulled = False

    def _numbers(self) -> Dict[str, float]:
        assert self.update is not None
        return dict(zip(self.update.hyper, self._hyper))
