"""Weight updates on the host, for what no update of a device does: clipping by value, or one update made of several programs.

PopTorch has no option that hands out gradients. But an Adam with lr 0 and betas 0 leaves the weights alone, and its first moment is the
gradient of the whole update: reduced over accumulation and replicas, and without the loss scale. It comes to the host as the optimizer's
state does; there the user's own optimizer makes the update, and the weights go back to the device with the next call.
"""

import contextlib
from typing import Any, Dict, Iterator, List, Mapping, Optional

import torch

from lightning_ipu.optimizer_state import from_device, from_torch, to_torch
from lightning_ipu.optimizers import rule_of

_FIRST_MOMENT = "Accl1"
# PopTorch clips by norm with these.
_CLIPPED_ON_DEVICE = ("SGD", "Adam", "AdamW")


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

    Args:
        strategy: whose optimizer, Trainer and device. A warning says so where all updates have to be made on the host.
    """

    def __init__(self, strategy: Any) -> None:
        self._strategy, self._optimizer, trainer = strategy, strategy.optimizers[0], strategy.trainer
        self._clip, self._algorithm = trainer.gradient_clip_val, _algorithm_of(trainer)
        self._sums: Dict[int, torch.Tensor] = {}
        reason = self._reason()
        self.is_always = reason is not None
        """Whether every update of the run is made here."""
        if reason is not None:
            n_bytes = sum(p.numel() * p.element_size() for p in self._parameters())
            strategy.lightning.warn(
                f"Trainer({reason} only. So the host makes the updates: after each one {n_bytes / 2**20:.3g} MiB of gradients come from "
                "the IPUs, the optimizer steps on the host, and the weights go back. The numbers are the CPU's. "
                f"gradient_clip_algorithm='norm' with {', '.join(_CLIPPED_ON_DEVICE)} stays on the IPUs."
            )

    def after_call(self, step: Any, *, is_complete: bool) -> None:
        """Takes the gradients of the call that ``step`` has just made; with the last one of an update, makes it."""
        device = self._strategy.device
        # The step has changed buffers, and as far as PopTorch knows the weights.
        step.executor.copyWeightsToHost()
        for (prefix, key), value in from_device(step.optimizer.state_dict()["ipu_state"], step.module.names()).items():
            if prefix == _FIRST_MOMENT:
                self._sums[key] = self._sums[key] + value if key in self._sums else value
        if not is_complete:
            return
        if device.optimizer_state:
            to_torch(device.optimizer_state, self._optimizer)
        self._update()
        # Where all updates are made here the state lives in the user's optimizer.
        device.optimizer_state = None if self.is_always else from_torch(self._optimizer)

    def _update(self) -> None:
        parameters = self._parameters()
        with _in_full_precision(parameters):
            for parameter in parameters:
                gradient = self._sums.get(id(parameter))
                parameter.grad = None if gradient is None else gradient.to(parameter.dtype).reshape(parameter.shape)
            self._sums = {}
            try:
                self._clip_gradients(parameters)
                # Of the class: LR schedulers count the calls of the instance's, and Lightning's counters do that already.
                type(self._optimizer).step(self._optimizer)
            finally:
                for parameter in parameters:
                    parameter.grad = None

    def _clip_gradients(self, parameters: List[torch.nn.Parameter]) -> None:
        if self._clip and self._algorithm == "value":
            torch.nn.utils.clip_grad_value_(parameters, self._clip)
            return
        limit = self._clip or getattr(self._optimizer, "max_grad_norm", None)
        if limit and limit != float("inf"):
            torch.nn.utils.clip_grad_norm_(parameters, limit)

    def _parameters(self) -> List[torch.nn.Parameter]:
        return [parameter for group in self._optimizer.param_groups for parameter in group["params"]]

    def _reason(self) -> Optional[str]:
        rule = rule_of(self._optimizer)
        if not self._clip:
            return None
        if self._algorithm == "value":
            return f"gradient_clip_val={self._clip}, gradient_clip_algorithm='value'): an IPU clips gradients by norm"
        if rule not in _CLIPPED_ON_DEVICE:
            return f"gradient_clip_val={self._clip}) with {rule}: an IPU clips gradients for {', '.join(_CLIPPED_ON_DEVICE)}"
        return None


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


def _algorithm_of(trainer: Any) -> str:
    algorithm = trainer.gradient_clip_algorithm
    return "norm" if algorithm is None else str(getattr(algorithm, "value", algorithm))
