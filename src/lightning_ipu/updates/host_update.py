"""Weight updates on the host, for what no update of a device does: clipping by value, hooks that look at gradients, or one update made of
several programs.

PopTorch has no option that hands out gradients. But an Adam with lr 0 and betas 0 leaves the weights alone, and its first moment is the
gradient of the whole update: reduced over accumulation and replicas, and without the loss scale. It comes to the host as the optimizer's
state does; there the user's own optimizer makes the update, and the weights go back to the device with the next call.
"""

import contextlib
from typing import Any, Dict, Iterator, List, Mapping, Tuple

import torch

from lightning_ipu.updates import hooks
from lightning_ipu.updates.optimizer_state import from_device, from_torch, to_torch
from lightning_ipu.updates.optimizers import rule_of

_FIRST_MOMENT = "Accl1"
# PopTorch clips by norm with these.
_CLIPPED_ON_DEVICE = ("SGD", "Adam", "AdamW")
_STEP_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")


def reading_optimizer(poptorch: Any, optimizer: torch.optim.Optimizer, stand_ins: Mapping[int, torch.nn.Parameter]) -> Any:
    """An optimizer for the device that changes no weight and keeps the gradients.

    Args:
        poptorch: the PopTorch in use.
        optimizer: the user's, which has the parameters and may have a loss scale.
        stand_ins: for an executor with parameters of its own, those by the id of the user's.
    """
    parameters = [stand_ins.get(id(p), p) for group in optimizer.param_groups for p in group["params"]]
    own = {"loss_scaling": optimizer.loss_scaling} if hasattr(optimizer, "loss_scaling") else {}
    return poptorch.optim.Adam(parameters, lr=0.0, betas=(0.0, 0.0), eps=1.0, weight_decay=0.0, **own)


class HostUpdates:
    """The updates of one run that are made on the host, from one call of the device each or from several.

    Hooks around backward and update are called where Lightning calls them, with the gradients in the weights' ``grad``.

    Args:
        strategy: whose optimizer, module and Trainer.
    """

    def __init__(self, strategy: Any) -> None:
        self._strategy, self._optimizer, trainer = strategy, strategy.optimizers[0], strategy.trainer
        self._clip, self._algorithm = trainer.gradient_clip_val, _algorithm_of(trainer)
        self._hooks = hooks.around_gradients(strategy.lightning_module, trainer.callbacks, strategy.lightning)
        # The weights' grad between two calls, by id: PopTorch's are not to have any.
        self._gradients: Dict[int, torch.Tensor] = {}
        self._new: Dict[int, torch.Tensor] = {}
        self._is_first = True
        self._hooked = [parameter for parameter in self._parameters() if any(_hooks_of(parameter)) and parameter.requires_grad]
        self._why = self._reasons()
        self.is_always = bool(self._why)
        """Whether every update of the run is made here."""
        self.takes_micro_batches = bool(self._hooked) or any(hook in self._hooks for hook in ("on_before_backward", "on_after_backward"))
        """Whether the micro-batches that an update accumulates come one by one: each has a backward of its own."""

    def tell(self) -> None:
        """Warns where all updates have to be made on the host."""
        if self._why:
            n_bytes = sum(p.numel() * p.element_size() for p in self._parameters())
            self._strategy.lightning.warn(
                f"{'; '.join(self._why)}. So the host makes the updates: after each one {n_bytes / 2**20:.3g} MiB of gradients come from "
                "the IPUs, the optimizer steps on the host, and the weights go back. The numbers are the CPU's. "
                f"gradient_clip_algorithm='norm' with {', '.join(_CLIPPED_ON_DEVICE)}, without such hooks, stays on the IPUs."
            )

    def take(self, step: Any) -> None:
        """Brings the gradients of the call that ``step`` has just made to the host."""
        # The step has changed buffers, and as far as PopTorch knows the weights.
        step.executor.copyWeightsToHost()
        self._new = {
            key: value
            for (prefix, key), value in from_device(step.optimizer.state_dict()["ipu_state"], step.module.names()).items()
            if prefix == _FIRST_MOMENT
        }

    def make(self, loss: torch.Tensor, batch_idx: int, *, is_complete: bool) -> None:
        """What comes after the forward of a call, up to the update if the call completes one.

        Args:
            loss: of the call, with the weight that the update gives it.
            batch_idx: that a CPU run would have.
            is_complete: it is the last call of an update.
        """
        parameters = self._parameters()
        with _in_full_precision(parameters), torch.no_grad():
            try:
                self._put(parameters, self._gradients)
                if self._is_first:
                    self._zero(parameters, batch_idx)
                self._backward(parameters, loss)
                if is_complete:
                    self._update(parameters)
                is_kept = not is_complete or "on_before_zero_grad" in self._hooks or "optimizer_zero_grad" in self._hooks
                self._gradients = {id(p): p.grad for p in parameters if p.grad is not None} if is_kept else {}
                self._is_first = is_complete
            finally:
                self._put(parameters, {})

    def _zero(self, parameters: List[torch.nn.Parameter], batch_idx: int) -> None:
        self._call("on_before_zero_grad", self._optimizer)
        if "optimizer_zero_grad" in self._hooks:
            self._of_module("optimizer_zero_grad", self._strategy.trainer.current_epoch, batch_idx, self._optimizer)
        else:
            self._put(parameters, {})

    def _backward(self, parameters: List[torch.nn.Parameter], loss: torch.Tensor) -> None:
        self._call("on_before_backward", loss)
        for parameter in parameters:
            new = self._new.get(id(parameter))
            if new is not None:
                new = new.to(parameter.dtype).reshape(parameter.shape)
                for hook in _hooks_of(parameter)[0]:
                    changed = hook(new)
                    new = new if changed is None else changed
                parameter.grad = new if parameter.grad is None else parameter.grad + new
                for hook in _hooks_of(parameter)[1]:
                    hook(parameter)
        self._call("on_after_backward")

    def _update(self, parameters: List[torch.nn.Parameter]) -> None:
        device = self._strategy.device
        if device.optimizer_state:
            to_torch(device.optimizer_state, self._optimizer)
        self._call("on_before_optimizer_step", self._optimizer)
        self._clip_gradients(parameters)
        # Of the class: LR schedulers count the calls of the instance's, and Lightning's counters do that already.
        type(self._optimizer).step(self._optimizer)
        # Where all updates are made here the state lives in the user's optimizer.
        device.optimizer_state = None if self.is_always else from_torch(self._optimizer)

    def _clip_gradients(self, parameters: List[torch.nn.Parameter]) -> None:
        if "configure_gradient_clipping" in self._hooks:
            clipping = {"gradient_clip_val": self._clip, "gradient_clip_algorithm": self._strategy.trainer.gradient_clip_algorithm}
            self._of_module("configure_gradient_clipping", self._optimizer, **clipping)
            return
        if self._clip and self._algorithm == "value":
            torch.nn.utils.clip_grad_value_(parameters, self._clip)
            return
        limit = self._clip or getattr(self._optimizer, "max_grad_norm", None)
        if limit and limit != float("inf"):
            torch.nn.utils.clip_grad_norm_(parameters, limit)

    def _call(self, hook: str, *args: Any) -> None:
        """Calls a hook of the callbacks and of the module, if somebody overrides it."""
        if hook in self._hooks:
            self._strategy.lightning.name("trainer.call", "_call_callback_hooks")(self._strategy.trainer, hook, *args)
            self._of_module(hook, *args)

    def _of_module(self, hook: str, *args: Any, **kwargs: Any) -> None:
        with torch.enable_grad():
            self._strategy.lightning.name("trainer.call", "_call_lightning_module_hook")(self._strategy.trainer, hook, *args, **kwargs)

    @staticmethod
    def _put(parameters: List[torch.nn.Parameter], gradients: Mapping[int, torch.Tensor]) -> None:
        for parameter in parameters:
            parameter.grad = gradients.get(id(parameter))

    def _parameters(self) -> List[torch.nn.Parameter]:
        return [parameter for group in self._optimizer.param_groups for parameter in group["params"]]

    def _reasons(self) -> List[str]:
        """Why every update of the run is made on the host; empty if none has to be."""
        rule = rule_of(self._optimizer)
        found = [f"{', '.join(users)} overrides {hook}, and gradients are on the device" for hook, users in self._hooks.items()]
        if self._hooked:
            found.append(f"{len(self._hooked)} parameters have hooks on their gradient, and gradients are on the device")
        if any(getattr(self._optimizer, kind, None) for kind in _STEP_HOOKS):
            found.append(f"{type(self._optimizer).__name__} has hooks before or after step(), and a device calls no Python")
        if self._clip and self._algorithm == "value":
            found.append(f"Trainer(gradient_clip_val={self._clip}, gradient_clip_algorithm='value'): an IPU clips gradients by norm only")
        elif self._clip and rule not in _CLIPPED_ON_DEVICE:
            found.append(
                f"Trainer(gradient_clip_val={self._clip}) with {rule}: an IPU clips gradients for {', '.join(_CLIPPED_ON_DEVICE)} only"
            )
        return found


@contextlib.contextmanager
def _in_full_precision(parameters: List[torch.nn.Parameter]) -> Iterator[None]:
    """Weights in half are in float32 meanwhile, as a device updates them; older versions of torch have no half arithmetic on the host."""
    half = [(parameter, parameter.data) for parameter in parameters if parameter.dtype == torch.float16]
    for parameter, value in half:
        parameter.data = value.float()
    try:
        yield
    finally:
        for parameter, value in half:
            value.copy_(parameter.data)
            parameter.data = value


def _hooks_of(parameter: torch.nn.Parameter) -> Tuple[List[Any], List[Any]]:
    """What ``register_hook`` and ``register_post_accumulate_grad_hook`` have put on a parameter."""
    first, later = (getattr(parameter, name, None) or {} for name in ("_backward_hooks", "_post_accumulate_grad_hooks"))
    return list(first.values()), list(later.values())


def _algorithm_of(trainer: Any) -> str:
    algorithm = trainer.gradient_clip_algorithm
    return "norm" if algorithm is None else str(getattr(algorithm, "value", algorithm))
