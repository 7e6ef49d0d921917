"""Optimizer state between a device and PyTorch's own format.

A device names its state `<prefix>___<parameter>` (`Accl1___lin.weight`); torch.optim keys it by parameter and name (`exp_avg`). Checkpoints
hold torch's, so that a file written on an IPU resumes on a CPU or a GPU, and back.
"""

import functools
from typing import Any, Dict, Mapping

import torch

from lightning_ipu.optimizers import rule_of

_ADAM = {"exp_avg": "Accl1", "exp_avg_sq": "Accl2", "step": "Step"}
_PREFIXES: Dict[str, Dict[str, str]] = {
    "SGD": {"momentum_buffer": "Accl1"},
    "Adam": _ADAM,
    "AdamW": _ADAM,
    "LAMB": _ADAM,
    "RMSprop": {"square_avg": "Accl1", "grad_avg": "Accl2", "momentum_buffer": "Accl3", "step": "Step"},
}


def to_torch(ipu_state: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> None:
    """Puts a device's state into ``optimizer.state``.

    Args:
        ipu_state: as PopTorch's ``state_dict()["ipu_state"]`` has it.
        optimizer: the user's.
        names: the device's name of each parameter, by the id of the user's.
    """
    rule = rule_of(optimizer)
    assert rule is not None, "refused in setup"
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            entry = _entry(ipu_state, _prefixes(optimizer), names.get(id(parameter), ""))
            step = entry.pop("step", None)
            if step is not None and not float(step):
                continue  # never updated: torch has no entry either
            if step is not None:
                entry["step"] = step.detach().clone().reshape(()) if _step_is_tensor(rule) else int(step)
            if entry:
                optimizer.state[parameter] = entry


def to_device(optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> Dict[str, torch.Tensor]:
    """A device's state from ``optimizer.state``; empty where the user's optimizer has none."""
    found: Dict[str, torch.Tensor] = {}
    for parameter, entry in optimizer.state.items():
        name = names.get(id(parameter))
        if name is None:
            continue
        for key, prefix in _prefixes(optimizer).items():
            value = entry.get(key)
            if value is not None:
                found[f"{prefix}___{name}"] = torch.as_tensor(value).detach().clone().float() if key == "step" else value.detach().clone()
    return found


def _prefixes(optimizer: torch.optim.Optimizer) -> Dict[str, str]:
    rule = rule_of(optimizer)
    if rule == "SGD" and getattr(optimizer, "use_combined_accum", False):
        return {"momentum_buffer": "Accl"}
    return _PREFIXES[rule or "SGD"]


def _entry(ipu_state: Mapping[str, torch.Tensor], prefixes: Mapping[str, str], name: str) -> Dict[str, Any]:
    found = {key: ipu_state.get(f"{prefix}___{name}") for key, prefix in prefixes.items()}
    return {key: value.detach().clone() if key != "step" else value for key, value in found.items() if value is not None}


@functools.lru_cache(maxsize=None)
def _step_is_tensor(rule: str) -> bool:
    """Whether the installed torch counts updates in a tensor: asked by updating one weight."""
    cls = getattr(torch.optim, rule, None)
    if cls is None:
        return True
    weight = torch.nn.Parameter(torch.zeros(1))
    weight.grad = torch.ones(1)
    probe = cls([weight], lr=0.1)
    probe.step()
    return isinstance(probe.state[weight].get("step"), torch.Tensor)
