"""Hyper-parameters: the numbers of an optimizer that may change between steps.

They are inputs of the update graph, never constants in it, so a schedule costs nothing.
"""

import numbers
from typing import Any, Dict

import torch

DEFAULT_MAX_WEIGHT_NORM = 65500.0
"""PopTorch's limit on LAMB's weight norm, also when it is given as None."""


def read_number(value: Any, name: str) -> float:
    """A hyper-parameter as a Python float.

    Raises:
        AssertionError: neither a number nor a tensor with one element.
    """
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return float(value.detach().item())
    assert isinstance(value, numbers.Number), f"Expected a number for {name} but got {value!r} instead. Give a float or a 0-d tensor."
    return float(value)  # type: ignore[arg-type]


def is_on(group: Dict[str, Any], name: str) -> bool:
    """Whether a group has the hyper-parameter with a value other than zero."""
    return name in group and read_number(group[name], name) != 0.0


def read_hyper(optimizer: torch.optim.Optimizer, group: Dict[str, Any], name: str) -> float:
    """The current value of a rule's hyper-parameter: beta1 and beta2 are the two entries of ``betas``."""
    if name in ("beta1", "beta2"):
        betas, index = group["betas"], ("beta1", "beta2").index(name)
        assert isinstance(betas, tuple) and len(betas) == 2, f"Expected a pair for betas but got {betas!r} instead. Give a tuple of two."
        return read_number(betas[index], f"betas[{index}]")
    if name == "max_weight_norm":
        value = group.get(name, getattr(optimizer, name, None))
        return DEFAULT_MAX_WEIGHT_NORM if value is None else read_number(value, name)
    return read_number(group[name], name)
