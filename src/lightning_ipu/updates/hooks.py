"""Hooks of Lightning around backward and update: who overrides them, and which an IPU cannot honour, told before training starts."""

from typing import Any, Dict, List

from lightning_ipu._lightning import Lightning

_REFUSED = {
    "backward": "forward and backward run on the device in one go. Change the loss that training_step returns instead",
    "manual_backward": "forward and backward run on the device in one go. Return the loss from training_step",
}
# In the order in which Lightning calls them. Where one is overridden gradients come to the host, which makes the updates.
AROUND_GRADIENTS = (
    *("on_before_zero_grad", "optimizer_zero_grad", "on_before_backward", "on_after_backward"),
    *("on_before_optimizer_step", "configure_gradient_clipping"),
)


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


def around_gradients(module: Any, callbacks: List[Any], lightning: Lightning) -> Dict[str, List[str]]:
    """Who overrides which hooks around backward and update: names by hook."""
    found = {}
    for hook in AROUND_GRADIENTS:
        users = [type(callback).__name__ for callback in callbacks if _callback_defines(callback, hook, lightning)]
        if lightning.is_overridden(hook, module):
            users.append(type(module).__name__)
        if users:
            found[hook] = users
    return found


def tell_of_several_updates(strategy: Any, n_updates: int) -> None:
    """Warns of what happens once for the ``n_updates`` weight updates of a call, where Lightning does it for each."""
    if n_updates == 1:
        return
    found = []
    if any(config.interval == "step" and not config.reduce_on_plateau for config in strategy.lr_scheduler_configs):
        found.append("an LR scheduler with interval='step' advances after each, but they share the learning rate of the first")
    if strategy.lightning.is_overridden("optimizer_step", strategy.lightning_module):
        found.append(f"{type(strategy.lightning_module).__name__}.optimizer_step is called once for all of them")
    if found:
        strategy.lightning.warn(
            f"One call of the device makes {n_updates} weight updates (device_iterations={n_updates}): {'; '.join(found)}. Use "
            "device_iterations=1 for the numbers of the CPU."
        )


def _callback_defines(callback: Any, hook: str, lightning: Lightning) -> bool:
    # Of the object: a LambdaCallback has its hooks there.
    own = getattr(callback, hook, None)
    return getattr(own, "__func__", own) is not getattr(lightning.name("callbacks", "Callback"), hook, None)


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
