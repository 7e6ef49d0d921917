"""What an optimizer object means: the rule, its groups and its static choices, as a frozen value.

Equal specs can share one update graph; numbers that may change between steps are not part of it (see hyper.py).
"""

import inspect
import warnings
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

import torch

from softipu.capture.update.hyper import is_on

ALLOWED = "torch.optim.SGD, Adam, AdamW and RMSprop, and poptorch.optim.SGD, Adam, AdamW, RMSprop and LAMB"

_TORCH_RULES = {
    torch.optim.SGD: "SGD",
    torch.optim.Adam: "Adam",
    torch.optim.AdamW: "AdamW",  # a subclass of Adam in newer versions of torch: the method resolution order finds it first
    torch.optim.RMSprop: "RMSprop",
}


@dataclass(frozen=True)
class GroupSpec:
    """A parameter group without its numbers.

    Attributes:
        parameters: names of its parameters that the step knows, in the group's order, each once.
        positions: where each stands among all parameters of the optimizer: the index in torch's state_dict.
        weight_decay, momentum, dampening: whether the number is other than zero.
        nesterov: SGD's look-ahead.
        decoupled: weight decay is applied to the weight (AdamW) instead of the gradient (Adam).
    """

    parameters: Tuple[str, ...]
    positions: Tuple[int, ...]
    weight_decay: bool = False
    momentum: bool = False
    dampening: bool = False
    nesterov: bool = False
    decoupled: bool = False


@dataclass(frozen=True)
class OptimizerSpec:
    """Everything about an optimizer that shapes the update graph; hashable.

    Attributes:
        rule: SGD, Adam, AdamW, RMSprop or LAMB.
        groups: one entry for each of ``optimizer.param_groups``, also for those without a parameter in the step.
        accum_type: storage of accumulated gradients.
        first_order_type, second_order_type: storage of momenta and of squared averages.
        use_combined_accum: SGD keeps gradient and velocity in one tensor; the numbers are those of separate tensors.
        centered, use_tf_variant: RMSprop's variants.
        bias_correction: LAMB's; AdamW accepts it without numeric effect.
    """

    rule: str
    groups: Tuple[GroupSpec, ...]
    accum_type: torch.dtype = torch.float32
    first_order_type: torch.dtype = torch.float32
    second_order_type: torch.dtype = torch.float32
    use_combined_accum: bool = False
    centered: bool = False
    use_tf_variant: bool = False
    bias_correction: bool = True


def read_optimizer(optimizer: torch.optim.Optimizer, named_parameters: Mapping[str, torch.Tensor]) -> OptimizerSpec:
    """The spec of an optimizer for the parameters of a step.

    Args:
        optimizer: one of torch.optim's or poptorch.optim's supported classes.
        named_parameters: the step's parameters. Parameters of the optimizer are recognised by identity; a tensor with two
            names gets the first; those that are not among them are left out.

    Raises:
        AssertionError: an unsupported class, a subclass with its own ``step``, or groups with different ``centered``.
        ValueError: ``amsgrad``, ``maximize``, or an accumulator type other than float16 and float32.
    """
    stock = _stock_class(optimizer)
    rule = _rule_of(stock)
    _refuse_options(optimizer)
    names: Dict[int, str] = {}
    for name, tensor in named_parameters.items():
        names.setdefault(id(tensor), name)

    groups = []
    position = 0
    for group in optimizer.param_groups:
        found = [(names[id(p)], position + i) for i, p in enumerate(group["params"]) if id(p) in names]
        position += len(group["params"])
        momentum = is_on(group, "momentum")
        groups.append(
            GroupSpec(
                parameters=tuple(name for name, _ in found),
                positions=tuple(place for _, place in found),
                weight_decay=is_on(group, "weight_decay"),
                momentum=momentum,
                dampening=momentum and is_on(group, "dampening"),  # torch ignores dampening without momentum
                nesterov=bool(group.get("nesterov", False)),
                decoupled=rule == "AdamW" or bool(group.get("decoupled_weight_decay", False)),
            )
        )
    if rule == "Adam" and groups and all(group.decoupled for group in groups):
        rule = "AdamW"
    first = "velocity_accum_type" if rule == "SGD" else "first_order_momentum_accum_type"
    return OptimizerSpec(
        rule=rule,
        groups=tuple(groups),
        accum_type=_accumulator_type(optimizer, "accum_type"),
        first_order_type=_accumulator_type(optimizer, first),
        second_order_type=_accumulator_type(optimizer, "second_order_momentum_accum_type"),
        use_combined_accum=rule == "SGD" and bool(getattr(optimizer, "use_combined_accum", False)),
        centered=rule == "RMSprop" and _centered(optimizer),
        use_tf_variant=rule == "RMSprop" and bool(getattr(optimizer, "use_tf_variant", False)),
        bias_correction=bool(getattr(optimizer, "bias_correction", True)),
    )


def _rule_name(cls: type) -> Optional[str]:
    """The rule that a class itself declares: torch's four, or a class with a ``_device_rule`` of its own."""
    return _TORCH_RULES.get(cls) or vars(cls).get("_device_rule")


def _rule_of(stock: type) -> str:
    name = _rule_name(stock)
    assert name is not None
    return name


def _stock_class(optimizer: Any) -> type:
    """The class whose mathematics the device runs; warns when the user's class is a subclass of it."""
    given = type(optimizer)
    stock = next((cls for cls in given.__mro__ if _rule_name(cls)), None)
    if stock is None:
        raise AssertionError(
            f"Unsupported optimizer type {given.__module__}.{given.__qualname__}: a device runs {ALLOWED}. "
            "Use one of these, or train on the CPU."
        )
    if given is not stock:
        # torch wraps `step` of every class that is instantiated, so compare what lies inside the wrappers.
        if inspect.unwrap(given.step) is not inspect.unwrap(stock.step):  # type: ignore[attr-defined]
            raise AssertionError(
                f"Optimizer {given.__qualname__} overrides step(), but a device never runs Python optimizer code: it would apply "
                f"{stock.__qualname__}'s rule instead. Use {stock.__qualname__} itself, or train on the CPU."
            )
        warnings.warn(
            f"Optimizer {given.__qualname__} is a subclass of {stock.__qualname__}: the device applies {stock.__qualname__}'s rule, "
            "and no Python code of the subclass.",
            stacklevel=3,
        )
    return stock


def _refuse_options(optimizer: torch.optim.Optimizer) -> None:
    for index, group in enumerate(optimizer.param_groups):
        if group.get("amsgrad", False):
            raise ValueError(f"Only non-amsgrad Adam/AdamW optimizers are supported: group {index} has amsgrad=True. Set amsgrad=False.")
        if group.get("maximize", False):
            raise ValueError(f"Optimizers on a device minimise: group {index} has maximize=True. Negate the loss instead.")


def _centered(optimizer: torch.optim.Optimizer) -> bool:
    values = [bool(group["centered"]) for group in optimizer.param_groups]
    for index, value in enumerate(values):
        assert value == values[0], (
            f"All parameter groups must have the same value for the 'centered' attribute (Group 0: {values[0]} / Group {index}: {value})."
        )
    return bool(values and values[0])


def _accumulator_type(optimizer: torch.optim.Optimizer, name: str) -> torch.dtype:
    value = getattr(optimizer, name, torch.float32)
    if value not in (torch.float16, torch.float32):
        raise ValueError(f"{name} must be set to either torch.float16 or torch.float32, not {value}.")
    return value
