"""Optimizer state between a device and PyTorch's own format.

A device names its state `<prefix>___<parameter>` (`Accl1___lin.weight`); torch.optim keys it by parameter and name (`exp_avg`). Checkpoints
hold torch's, so that a file written on an IPU resumes on a CPU or a GPU, and back.
"""

import functools
from typing import Any, Dict, Mapping, Tuple

import torch

from lightning_ipu.updates.optimizers import rule_of

_ADAM = {"exp_avg": "Accl1", "exp_avg_sq": "Accl2", "step": "Step"}
_PREFIXES: Dict[str, Dict[str, str]] = {
    "SGD": {"momentum_buffer": "Accl1"},
    "Adam": _ADAM,
    "AdamW": _ADAM,
    "LAMB": _ADAM,
    "RMSprop": {"square_avg": "Accl1", "grad_avg": "Accl2", "momentum_buffer": "Accl3", "step": "Step"},
}


# By the device's prefix and the id of the user's parameter: names may change with the module, parameters stay.
State = Dict[Tuple[str, int], torch.Tensor]


def from_device(ipu_state: Mapping[str, torch.Tensor], names: Mapping[int, str]) -> State:
    """A device's state, as PopTorch's ``state_dict()["ipu_state"]`` has it.

    Args:
        ipu_state: by PopTorch's names.
        names: PopTorch's name of each parameter, by the id of the user's.
    """
    ids = {name: key for key, name in names.items()}
    parts = ((full.partition("___"), tensor) for full, tensor in ipu_state.items())
    return {(prefix, ids[name]): tensor for (prefix, _, name), tensor in parts if name in ids}


def for_device(state: State, names: Mapping[int, str]) -> Dict[str, torch.Tensor]:
    """The same by PopTorch's names."""
    return {f"{prefix}___{names[key]}": tensor for (prefix, key), tensor in state.items() if key in names}


def to_torch(state: State, optimizer: torch.optim.Optimizer) -> None:
    """Puts a device's state into the user's ``optimizer.state``."""
    rule = rule_of(optimizer)
    assert rule is not None, "refused in setup"
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            found = {key: state.get((prefix, id(parameter))) for key, prefix in _prefixes(optimizer).items()}
            entry: Dict[str, Any] = {key: value.detach().clone() for key, value in found.items() if value is not None}
            step = entry.pop("step", None)
            if step is not None and not float(step):
                continue  # never updated: torch has no entry either
            if step is not None:
                entry["step"] = step.reshape(()) if _step_is_tensor(rule) else int(step)
            if entry:
                optimizer.state[parameter] = entry


def from_torch(optimizer: torch.optim.Optimizer) -> State:
    """What a device needs of the user's ``optimizer.state``; empty where there is none."""
    found: State = {}
    for parameter, entry in optimizer.state.items():
        for key, prefix in _prefixes(optimizer).items():
            value = entry.get(key)
            if value is not None:
                tensor = torch.as_tensor(value).detach().clone()
                found[(prefix, id(parameter))] = tensor.float() if key == "step" else tensor
    return found


def _prefixes(optimizer: torch.optim.Optimizer) -> Dict[str, str]:
    rule = rule_of(optimizer)
    if rule == "SGD" and getattr(optimizer, "use_combined_accum", False):
        return {"momentum_buffer": "Accl"}
    return _PREFIXES[rule or "SGD"]


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
