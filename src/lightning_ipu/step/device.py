"""Which compiled step holds the IPUs, and where the newest weights are.

One program is on the IPUs at a time. A step that is to run takes them from the one before; PopTorch then copies weights, optimizer state
and random state to the host, and from there they go with the next. While a training step keeps the IPUs nothing is copied, unless somebody
reads a weight on the host: then PopTorch copies all of them there, and as a reader may write, they are copied back before the next call.
"""

import contextlib
import logging
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from lightning_ipu.updates.optimizer_state import State, for_device, from_device

_log = logging.getLogger("lightning_ipu")


class CompiledStep:
    """An executor of PopTorch and what is known of its step.

    Args:
        module: the StepModule.
        executor: PopTorch's executor of it.
        optimizer: the device's optimizer, in training.
        is_twin: whether it trains parameters of its own on the memory of the user's.
        updates_on_host: its optimizer is host_update.py's, which only keeps the gradients.
    """

    def __init__(
        self, module: Any, executor: Any, optimizer: Optional[torch.optim.Optimizer], *, is_twin: bool, updates_on_host: bool = False
    ) -> None:
        self.module, self.executor, self.optimizer, self.is_twin = module, executor, optimizer, is_twin
        self.updates_on_host = updates_on_host
        self.numbers: Any = None
        self.members: Any = None
        self.host_was_read = False
        self.versions: Tuple[int, ...] = ()
        if optimizer is not None:
            self._learn_of_reads()

    def _learn_of_reads(self) -> None:
        # PopTorch calls this method of the instance also when a read on the host makes it copy.
        copy = self.executor.copyWeightsToHost

        def copyWeightsToHost() -> None:
            self.host_was_read = True
            copy()

        with contextlib.suppress(AttributeError):
            self.executor.copyWeightsToHost = copyWeightsToHost

    @property
    def trains(self) -> bool:
        """Whether calls update the weights."""
        return self.optimizer is not None


class Device:
    """The IPUs of one Trainer.

    Args:
        poptorch: the PopTorch in use.
        module: the user's module.
    """

    def __init__(self, poptorch: Any, module: torch.nn.Module) -> None:
        self._poptorch, self._module = poptorch, module
        self._places = _places_of(module)
        self._generation = 0
        self.holder: Optional[CompiledStep] = None
        self.alive: List[CompiledStep] = []
        self.optimizer_state: Optional[State] = None
        self.random_state: Optional[List[int]] = None

    def compile(self, step: CompiledStep, inputs: Sequence[torch.Tensor]) -> None:
        """Compiles ``step``, which then holds the IPUs. Whatever the compilation raises leaves no trace of the step."""
        self.release()
        try:
            if self.optimizer_state:
                self._load_optimizer_state(step)
            step.executor.compile(*inputs)
        except BaseException:
            with contextlib.suppress(Exception):
                step.executor.destroy()
            raise
        self.alive.append(step)
        self.holder = step
        step.host_was_read = False
        self._note_versions(step)
        self._give_random_state(step)

    def make_ready(self, step: CompiledStep) -> None:
        """Gives the IPUs to ``step``, with the newest weights."""
        if self.holder is not step:
            self.release()
            if not step.executor.isAttachedToDevice():
                step.executor.attachToDevice()
            else:
                step.executor.copyWeightsToDevice()
            self.holder = step
            if step.trains:
                self._give_optimizer_state(step)
                self._give_random_state(step)
        elif step.host_was_read or (not step.trains and step.versions != self._versions()):
            step.executor.copyWeightsToDevice()
        step.host_was_read = False
        self._note_versions(step)

    def after_training_call(self, step: CompiledStep) -> None:
        """Brings weights to the host where PopTorch does not know who reads them."""
        if step.is_twin:
            step.executor.copyWeightsToHost()
            step.host_was_read = False

    def release(self) -> None:
        """Takes the IPUs from the step that holds them; weights, optimizer state and random state are on the host then."""
        step, self.holder = self.holder, None
        if step is None or not step.executor.isCompiled() or not step.executor.isAttachedToDevice():
            return
        if step.trains:
            self.random_state = list(step.executor.rng_state)
            self._take_optimizer_state(step)
        step.executor.detachFromDevice()

    def drop(self, step: CompiledStep) -> None:
        """Frees a step that is not needed any more."""
        if self.holder is step:
            self.release()
        self.alive.remove(step)
        step.executor.destroy()

    def read_optimizer_state(self) -> Optional[State]:
        """State of the optimizer, newest, or None before the first training call."""
        if self.holder is not None and self.holder.trains:
            self._take_optimizer_state(self.holder)
        return self.optimizer_state

    def read_random_state(self) -> Optional[List[int]]:
        """The training step's random state, newest, or None."""
        if self.holder is not None and self.holder.trains:
            self.random_state = list(self.holder.executor.rng_state)
        return self.random_state

    def close(self) -> None:
        """Frees everything. Never raises: an error on the way here is the one to show."""
        for action in (self.release, *(lambda step=step: step.executor.destroy() for step in self.alive)):
            try:
                action()
            except Exception as error:  # noqa: BLE001  see above
                _log.warning("lightning-ipu: releasing the IPUs failed: %s: %s", type(error).__name__, error)
        self.alive = []
        self.holder = None

    def _take_optimizer_state(self, step: CompiledStep) -> None:
        assert step.optimizer is not None
        if step.updates_on_host:
            return
        ipu_state = step.optimizer.state_dict().get("ipu_state")
        if ipu_state is not None:
            # What this step does not train keeps the state that it had, as in torch.
            self.optimizer_state = {**(self.optimizer_state or {}), **from_device(ipu_state, step.module.names())}

    def _give_optimizer_state(self, step: CompiledStep) -> None:
        others = [other for other in self.alive if other.trains and other is not step]
        if others and self.optimizer_state is not None and not step.updates_on_host:
            self._load_optimizer_state(step)
            step.executor.setOptimizer(step.optimizer)

    def _load_optimizer_state(self, step: CompiledStep) -> None:
        if step.optimizer is None or step.updates_on_host or not self.optimizer_state:
            return
        plain = torch.optim.Optimizer.state_dict(step.optimizer)
        # Without PopTorch's numbers (ipu_param): those are the user's optimizer's, and may have changed since.
        own = {"ipu_state": for_device(self.optimizer_state, step.module.names()), "ipu_param": {}}
        step.optimizer.load_state_dict({**own, "state": plain["state"], "param_groups": plain["param_groups"]})

    def _give_random_state(self, step: CompiledStep) -> None:
        if step.trains and self.random_state is not None and any(self.random_state):
            step.executor.rng_state = self.random_state

    @property
    def generation(self) -> int:
        """Another number after a callback has put another tensor in the place of a parameter or a buffer."""
        if any(registry.get(name) is not tensor for registry, name, tensor in self._places):
            known = {id(tensor) for _, _, tensor in self._places}
            self._places = _places_of(self._module)
            self._keep_values([tensor for _, _, tensor in self._places if id(tensor) not in known])
            self._generation += 1
        return self._generation

    def _keep_values(self, new: Sequence[torch.Tensor]) -> None:
        # Nobody read a weight to put a new tensor in its place, so the other weights on the host may be old. PopTorch copies them by
        # name, and the new tensors with them.
        holder = self.holder
        if holder is None or not holder.trains or not holder.executor.isAttachedToDevice():
            return
        values = [(tensor, tensor.detach().clone()) for tensor in new]
        holder.executor.copyWeightsToHost()
        with torch.no_grad():
            for tensor, value in values:
                tensor.copy_(value)

    def _versions(self) -> Tuple[int, ...]:
        return tuple(tensor._version for _, _, tensor in self._places)

    def _note_versions(self, step: CompiledStep) -> None:
        if not step.trains:
            step.versions = self._versions()


def _places_of(module: torch.nn.Module) -> List[Tuple[Dict[str, Any], str, torch.Tensor]]:
    registries = [registry for part in module.modules() for registry in (part._parameters, part._buffers)]
    return [(registry, name, tensor) for registry in registries for name, tensor in registry.items() if tensor is not None]
