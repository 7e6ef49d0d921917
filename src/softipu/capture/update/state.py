"""Optimizer state: its first values, and to and from torch.optim's own format."""

from typing import Any, Dict, List, Mapping, Union

import torch

from softipu.capture.update.build import Input, Update
from softipu.capture.update.rule import STEP


def new_state(update: Update, parameters: Mapping[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
    """State before the first update, by name; each tensor is laid out as its parameter."""
    state = {}
    for entry in _states(update):
        if _slot(entry).scalar:
            state[entry.name] = torch.full((), _slot(entry).initial, dtype=entry.dtype)
        else:
            state[entry.name] = torch.full_like(parameters[_owner(entry)].detach(), _slot(entry).initial, dtype=entry.dtype)
    return state


def carry_state(update: Update, old: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
    """State for an update that was built anew (momentum switched on, a group added): what exists is kept, the rest starts.

    A velocity that comes without a count of its updates has had at least one.
    """
    state = new_state(update, parameters)
    for name in state:
        if name in old:
            state[name] = old[name]
        elif name.startswith(f"{STEP.prefix}___") and any(f"{prefix}___{name.split('___', 1)[1]}" in old for prefix in ("Accl", "Accl1")):
            state[name].fill_(1)
    return state


def export_state(update: Update, state: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer) -> Dict[str, Any]:
    """The state in the format of ``optimizer.state_dict()``, as torch of this version would have it.

    Tensors are copies. Parameters that have not been updated have no entry, as in torch.
    """
    positions = _positions(update)
    entries: Dict[int, Dict[str, Any]] = {}
    for entry in _states(update):
        key = _slot(entry).torch_key
        value: Any = state[entry.name].detach().clone()
        entries.setdefault(positions[_owner(entry)], {})[key] = value
    for index in list(entries):
        step = entries[index].get(STEP.torch_key)
        if step is not None and not step.item():
            del entries[index]
        elif update.spec.rule == "SGD":
            entries[index].pop(STEP.torch_key, None)  # only our count of damped updates
    # torch's own state_dict() packs the groups; its state is left out of it, for it is the host's and out of date.
    packed = torch.optim.Optimizer.state_dict(optimizer)
    return {"state": entries, "param_groups": packed["param_groups"]}


def import_state(update: Update, source: Union[Mapping[str, Any], torch.optim.Optimizer]) -> Dict[str, torch.Tensor]:
    """State from ``optimizer.state_dict()`` or from an optimizer that has stepped on the host or loaded a checkpoint.

    Parameters without an entry begin anew. Tensors are contiguous copies in the storage types of the spec.

    Raises:
        ValueError: a state whose shape is not the parameter's.
    """
    by_position = _by_position(source)
    positions = _positions(update)
    state = {}
    for entry in _states(update):
        slot = _slot(entry)
        values = by_position.get(positions[_owner(entry)], {})
        value = values.get(slot.torch_key)
        if value is None:
            # torch's SGD keeps no count: a momentum buffer is the trace of at least one update.
            initial = 1.0 if slot is STEP and values.get("momentum_buffer") is not None else slot.initial
            state[entry.name] = torch.full(entry.shape, initial, dtype=entry.dtype)
            continue
        tensor = torch.as_tensor(value).detach().to(dtype=entry.dtype, device="cpu", copy=True).contiguous()
        if slot.scalar:
            tensor = tensor.reshape(())
        if tuple(tensor.shape) != entry.shape:
            raise ValueError(
                f"State {slot.torch_key!r} of parameter {_owner(entry)!r} has shape {tuple(tensor.shape)}, but the parameter has {entry.shape}. "
                "Load the state of the same model and optimizer."
            )
        state[entry.name] = tensor
    return state


def _states(update: Update) -> List[Input]:
    return [entry for entry in update.inputs if entry.role == "state"]


def _slot(entry: Input) -> Any:
    assert entry.slot is not None
    return entry.slot


def _owner(entry: Input) -> str:
    return entry.name.split("___", 1)[1]


def _positions(update: Update) -> Dict[str, int]:
    return {name: place for group in update.spec.groups for name, place in zip(group.parameters, group.positions)}


def _by_position(source: Union[Mapping[str, Any], torch.optim.Optimizer]) -> Dict[int, Dict[str, Any]]:
    if isinstance(source, torch.optim.Optimizer):
        parameters = [p for group in source.param_groups for p in group["params"]]
        return {i: source.state[p] for i, p in enumerate(parameters) if p in source.state}
    if "state" not in source:
        raise TypeError(
            "Expected an optimizer or its state_dict(), a mapping with the keys 'state' and 'param_groups'; "
            f"got a {type(source).__name__} with {len(source)} other keys. Give the optimizer itself in place of optimizer.state."
        )
    # An index in a file stands for the position of the parameter in the file's groups, as in torch's load_state_dict.
    saved = [index for group in source["param_groups"] for index in group["params"]]
    return {i: source["state"][index] for i, index in enumerate(saved) if index in source["state"]}
