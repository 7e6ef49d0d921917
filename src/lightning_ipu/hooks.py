"""Hooks of Lightning that the user overrides and an IPU cannot honour: refused, or warned about by name, before training starts."""

import contextlib
from typing import Any, Iterator, List

from lightning_ipu._lightning import Lightning

_GRADIENTS = "forward, backward and update run on the device in one go, and gradients never reach the host"
# Overridden on the LightningModule, these would be skipped or do nothing.
_REFUSED = {
    "backward": f"{_GRADIENTS}. Scale the loss that training_step returns instead",
    "manual_backward": f"{_GRADIENTS}. Return the loss from training_step",
    "on_before_backward": f"{_GRADIENTS}. Change the loss in training_step instead",
    "on_after_backward": f"{_GRADIENTS}: p.grad is None. Use gradient_clip_val=... for clipping, or change the loss",
    "on_before_optimizer_step": f"{_GRADIENTS}: p.grad is None. Use gradient_clip_val=...; on_train_batch_end sees the new weights",
    "configure_gradient_clipping": f"{_GRADIENTS}. Use Trainer(gradient_clip_val=..., gradient_clip_algorithm='norm')",
    "optimizer_zero_grad": f"{_GRADIENTS}, so there are none to zero. Remove the override",
}
# Called on the host after the device's update; the user has to know.
AFTER_THE_STEP = ("on_before_zero_grad", "on_before_backward", "on_after_backward", "on_before_optimizer_step")


def refuse_overridden(module: Any, lightning: Lightning) -> None:
    """Raises MisconfigurationException for overridden hooks of ``module`` that cannot be honoured."""
    if not module.automatic_optimization:
        raise lightning.misconfiguration(
            f"{type(module).__name__} sets automatic_optimization=False, but manual optimization calls backward and step from Python, and "
            "on an IPU they run on the device. Return the loss from training_step and leave automatic_optimization on."
        )
    for hook, reason in _REFUSED.items():
        if lightning.is_overridden(hook, module) if hook != "manual_backward" else _defines(module, hook, lightning):
            raise lightning.misconfiguration(f"{type(module).__name__} overrides {hook}, which accelerator='ipu' cannot honour: {reason}.")
    for step in ("training_step", "validation_step", "test_step", "predict_step"):
        _refuse_iterators(module, step, lightning)


def called_after_the_step(module: Any, callbacks: List[Any], lightning: Lightning) -> List[str]:
    """Hooks around backward and update that somebody overrides. They are called after the device's update; a warning says so once."""
    found = []
    for hook in AFTER_THE_STEP:
        users = _users_of(hook, callbacks, lightning)
        if lightning.is_overridden(hook, module):
            users.append(type(module).__name__)
        if users:
            found.append(hook)
            lightning.warn(
                f"{', '.join(users)} overrides {hook}. With accelerator='ipu' it is called after the device has updated the weights, "
                f"because {_GRADIENTS}: p.grad is None there."
            )
    return found


@contextlib.contextmanager
def explaining_gradients(hook: str, callbacks: List[Any], lightning: Lightning) -> Iterator[None]:
    """Gives the reason for an error that comes of a gradient being None while ``hook`` of some callback runs."""
    try:
        yield
    except (AttributeError, TypeError) as error:
        if "None" not in str(error):
            raise
        names = " or ".join(f"{name}.{hook}" for name in _users_of(hook, callbacks, lightning)) or hook
        raise lightning.misconfiguration(
            f"{names} failed ({error}): with accelerator='ipu' {_GRADIENTS}: p.grad is None there. Compute what it needs in training_step "
            "and log it, or leave the callback out."
        ) from error


def _users_of(hook: str, callbacks: List[Any], lightning: Lightning) -> List[str]:
    own = getattr(lightning.name("callbacks", "Callback"), hook, None)
    return [type(callback).__name__ for callback in callbacks if getattr(type(callback), hook, None) is not own]


def _defines(module: Any, name: str, lightning: Lightning) -> bool:
    return getattr(type(module), name, None) is not getattr(lightning.name("core.module", "LightningModule"), name, None)


def _refuse_iterators(module: Any, step: str, lightning: Lightning) -> None:
    takes = lightning.name("utilities.signature_utils", "is_param_in_hook_signature")
    function = getattr(module, step, None)
    if function is not None and takes(function, "dataloader_iter", explicit=True):
        raise lightning.misconfiguration(
            f"{type(module).__name__}.{step}(dataloader_iter) fetches its own batches, but a compiled step is given one batch of fixed "
            "shape. Take (self, batch, batch_idx) instead."
        )
