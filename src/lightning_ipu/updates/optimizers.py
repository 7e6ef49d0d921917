"""From the optimizer that the user made to the one that the device runs.

The user's object stays on the host: LR schedulers and callbacks change it, checkpoints are written in its format. The device runs one of
poptorch.optim, made from it, with the same groups; its numbers are brought up to date before a call when the user's have changed.
"""

import inspect
from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch

from lightning_ipu._lightning import Lightning

# The numbers of a group that the device takes, by rule.
_HYPER = {
    "SGD": ("lr", "momentum", "dampening", "weight_decay"),
    "Adam": ("lr", "betas", "eps", "weight_decay"),
    "AdamW": ("lr", "betas", "eps", "weight_decay"),
    "RMSprop": ("lr", "alpha", "eps", "weight_decay", "momentum"),
    "LAMB": ("lr", "betas", "eps", "weight_decay"),
}
# Choices that shape the update; given only where they differ from the default, since PopTorch takes a given argument for variable.
_CHOICES = {"SGD": ("nesterov",), "RMSprop": ("centered",)}
# What an optimizer of poptorch.optim has besides its groups.
_OWN = (
    *("loss_scaling", "accum_type", "velocity_accum_type", "first_order_momentum_accum_type", "second_order_momentum_accum_type"),
    *("use_combined_accum", "bias_correction", "max_weight_norm", "use_tf_variant", "max_grad_norm"),
)
ALLOWED = "torch.optim.SGD, Adam, AdamW, RMSprop, or poptorch.optim's SGD, Adam, AdamW, RMSprop, LAMB"


def stock_class(optimizer: torch.optim.Optimizer) -> Optional[type]:
    """The class of torch's or PopTorch's whose update a device has a rule for, or None."""
    for kind in type(optimizer).__mro__:
        # AdamW is a subclass of Adam in newer versions of torch, and comes first here.
        is_stock = kind.__module__.startswith("torch.optim.") or kind.__module__.split(".")[0] in ("poptorch", "softipu")
        if is_stock and kind.__name__ in _HYPER:
            return kind
    return None


def rule_of(optimizer: torch.optim.Optimizer) -> Optional[str]:
    """The name of the rule that a device has for ``optimizer``, or None."""
    kind = stock_class(optimizer)
    if kind is None:
        return None
    groups = optimizer.param_groups
    return "AdamW" if kind.__name__ == "Adam" and groups and all(g.get("decoupled_weight_decay") for g in groups) else kind.__name__


def refuse_unsupported(optimizers: List[torch.optim.Optimizer], lightning: Lightning) -> None:
    """Raises MisconfigurationException for what no device does, before training starts."""
    if len(optimizers) != 1:
        raise lightning.misconfiguration(
            f"accelerator='ipu' trains with one optimizer, and configure_optimizers returned {len(optimizers)}: a compiled step makes one "
            "update. Put the parameters into groups of one optimizer, each with its own lr."
        )
    optimizer = optimizers[0]
    rule, stock = rule_of(optimizer), stock_class(optimizer)
    name = f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
    if type(optimizer).__name__ == "_MockOptimizer":
        raise lightning.misconfiguration(
            f"configure_optimizers returned None. A training step of an IPU ends with a weight update, so return an optimizer: {ALLOWED}."
        )
    if rule is None or stock is None:
        raise lightning.misconfiguration(
            f"accelerator='ipu' has no rule for the optimizer {name}: the update runs on the device, which has rules for {ALLOWED}. Use "
            "one of these."
        )
    if inspect.unwrap(type(optimizer).step) is not inspect.unwrap(stock.step):  # type: ignore[attr-defined]  # torch wraps it in each class
        raise lightning.misconfiguration(
            f"The optimizer {name} overrides step(), but the update runs on the device and never calls Python: it would be {rule}'s. "
            f"Use {stock.__module__}.{stock.__name__} itself."
        )
    for flag in ("amsgrad", "maximize"):
        if any(group.get(flag) for group in optimizer.param_groups):
            raise lightning.misconfiguration(f"{name}({flag}=True): PopTorch has no such update. Leave {flag} out.")


def numbers_of(optimizer: torch.optim.Optimizer) -> Tuple[Tuple[Any, ...], ...]:
    """The numbers of every group: equal as long as the device is up to date."""
    keys = _HYPER[rule_of(optimizer) or "SGD"]
    return tuple(tuple(_plain(group.get(key)) for key in keys) for group in optimizer.param_groups)


def members_of(optimizer: torch.optim.Optimizer) -> Tuple[Tuple[int, ...], ...]:
    """Which parameters are in which group."""
    return tuple(tuple(id(p) for p in group["params"]) for group in optimizer.param_groups)


def device_optimizer(
    poptorch: Any, optimizer: torch.optim.Optimizer, stand_ins: Mapping[int, torch.nn.Parameter], max_grad_norm: Optional[float]
) -> torch.optim.Optimizer:
    """The optimizer that the device runs.

    Args:
        poptorch: the PopTorch in use.
        optimizer: the user's.
        stand_ins: for an executor with parameters of its own, those by the id of the user's.
        max_grad_norm: limit on the norm of all gradients together; None leaves what the user's optimizer has.
    """
    rule = rule_of(optimizer)
    assert rule is not None, "refused in setup"
    groups = []
    for group in optimizer.param_groups:
        numbers = {key: _plain(group[key]) for key in _HYPER[rule] if key in group}
        choices = {key: group[key] for key in _CHOICES.get(rule, ()) if group.get(key)}
        groups.append({"params": [stand_ins.get(id(p), p) for p in group["params"]], **_as_torch_means(rule, numbers), **choices})
    defaults = {key: _plain(optimizer.defaults[key]) for key in _HYPER[rule] if optimizer.defaults.get(key) is not None}
    defaults.update({key: True for key in _CHOICES.get(rule, ()) if any(group.get(key) for group in groups)})
    own = {key: getattr(optimizer, key) for key in _OWN if hasattr(optimizer, key)}
    if max_grad_norm:
        own["max_grad_norm"] = float(max_grad_norm)
    cls = getattr(poptorch.optim, rule)
    taken = inspect.signature(cls.__init__).parameters
    made = cls(groups, **_as_torch_means(rule, defaults), **{key: value for key, value in own.items() if key in taken})
    assert isinstance(made, torch.optim.Optimizer)
    return made


def bring_up_to_date(device: torch.optim.Optimizer, optimizer: torch.optim.Optimizer) -> None:
    """Gives the device's optimizer the numbers that the user's has now."""
    rule = rule_of(optimizer)
    assert rule is not None, "refused in setup"
    for own, group in zip(device.param_groups, optimizer.param_groups):
        own.update(_as_torch_means(rule, {key: _plain(group[key]) for key in _HYPER[rule] if key in group}))
    for key in ("loss_scaling", "max_grad_norm"):
        if hasattr(optimizer, key):
            setattr(device, key, getattr(optimizer, key))


def _as_torch_means(rule: str, numbers: Dict[str, Any]) -> Dict[str, Any]:
    # torch ignores dampening without momentum; PopTorch would scale every update by it.
    if rule == "SGD" and not numbers.get("momentum"):
        numbers = {**numbers, "dampening": 0.0}
    return numbers


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return float(value)
    return tuple(_plain(item) for item in value) if isinstance(value, (list, tuple)) else value
