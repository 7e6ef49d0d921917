"""The numbers of an optimizer in the debug log, in PopTorch's words: which of them are constants of the compiled program."""

import inspect
from typing import Any, Dict, Iterator, List, Tuple

import torch

from softipu.poptorch.log import logger
from softipu.poptorch.optim import Optimizer

_WORDS = {"lr": "learningRate", "weight_decay": "weightDecay", "velocity_scaling": "velocityScaling", "max_weight_norm": "maxWeightNorm"}
_NUMBERS = ("lr", "momentum", "dampening", "weight_decay", "velocity_scaling", "betas", "alpha", "eps", "max_weight_norm")
_SGD_ACCUMULATORS = {"accumType": "accum_type", "firstOrderMomentumAccumType": "velocity_accum_type"}
_ACCUMULATORS = {
    "accumType": "accum_type",
    "firstOrderMomentumAccumType": "first_order_momentum_accum_type",
    "secondOrderMomentumAccumType": "second_order_momentum_accum_type",
}
# What torch's own optimizers start from: a number that is the same counts as a constant, except the learning rate.
_TORCH_CONSTANTS = ("betas", "alpha")


class OptimizerLog:
    """Writes lines when the numbers differ from those of the last lines."""

    def __init__(self) -> None:
        self._last: List[str] = []

    def update(self, optimizer: torch.optim.Optimizer, rule: str, loss_scaling: float) -> None:
        """One line for the whole optimizer and one for each group."""
        lines = list(_lines(optimizer, rule, loss_scaling))
        if lines != self._last:
            self._last = lines
            for line in lines:
                logger.debug("Updating %s", line)


def _lines(optimizer: torch.optim.Optimizer, rule: str, loss_scaling: float) -> Iterator[str]:
    whole = [f"{name}={text}" for name, text in _numbers(optimizer, rule, optimizer.defaults, loss_scaling, "default")]
    whole.append(f"lossScaling={_shown(loss_scaling)}{_constant(optimizer, 'loss_scaling', loss_scaling == 1.0)}")
    for name, attribute in (_SGD_ACCUMULATORS if rule == "SGD" else _ACCUMULATORS).items():
        kind = getattr(optimizer, attribute, None) or torch.float32
        whole.append(f"{name}={str(kind).split('.')[-1]}")
    yield f"graph optimizer with {rule} parameters {', '.join(whole)}"
    for index, group in enumerate(optimizer.param_groups):
        numbers = [f"{name}={text}" for name, text in _numbers(optimizer, rule, group, loss_scaling, "")]
        yield f"group {index} optimizer with {rule} parameters {', '.join(numbers)},"


def _numbers(
    optimizer: torch.optim.Optimizer, rule: str, values: Dict[str, Any], loss_scaling: float, prefix: str
) -> Iterator[Tuple[str, str]]:
    for name in _NUMBERS:
        value, decides = values.get(name), name
        if rule == "SGD" and name == "velocity_scaling" and not getattr(optimizer, "use_combined_accum", False):
            value, decides = loss_scaling, "loss_scaling"  # the velocity is scaled as the gradient is
        if value is None:
            continue
        is_default = loss_scaling == 1.0 if decides == "loss_scaling" else _is_torchs_default(optimizer, name, value)
        constant = _constant(optimizer, decides, name in _TORCH_CONSTANTS or is_default)
        parts = [("beta1", value[0]), ("beta2", value[1])] if name == "betas" else [(_WORDS.get(name, name), value)]
        for word, part in parts:
            yield (prefix + word[0].upper() + word[1:] if prefix else word), _shown(part) + constant


def _constant(optimizer: torch.optim.Optimizer, name: str, is_default: bool) -> str:
    """How PopTorch marks what cannot change after compiling; arguments of PopTorch's own optimizers say it themselves."""
    if name == "lr":
        return ""
    if isinstance(optimizer, Optimizer):
        constant = optimizer.variable_attrs.isConstant(name)  # type: ignore[attr-defined]
    else:
        constant = is_default
    return " (const)" if constant else ""


def _is_torchs_default(optimizer: torch.optim.Optimizer, name: str, value: Any) -> bool:
    parameter = inspect.signature(type(optimizer).__init__).parameters.get(name)
    return parameter is not None and value == parameter.default


def _shown(value: Any) -> str:
    return f"{float(value):g}"
