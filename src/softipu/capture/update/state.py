"""Optimizer state: its first values, and to and from torch.optim's own format."""

from functools import lru_cache
from typing import Any, Dict, List, Mapping, Optional, Union

import torch

from softipu.capture.update.build import Input, Update
from softipu.capture.update.rule import STEP
from softipu.capture.update.spec import OptimizerSpec


def new_state(update: Update, parameters: Mapping[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
    """State before the first update, by name; each tensor is laid out as its parameter."""
    state = {}
    for entry in _states(update):
        if _slot(entry).scalar:
            state[entry.name] = torch.full((), _slot(entry).initial, dtype=entry.dtype)
        else:
            state[entry.name] = torch.full_like(parameters[_owner(entry)].detach(), _slot(entry).initial, dtype=entry.dtype)
    return state


def carry_state(
    update: Update,
    old: Mapping[str, torch.Tensor],
    parameters: Mapping[str, torch.Tensor],
    *,
    old_spec: Optional[OptimizerSpec] = None,
) -> Dict[str, torch.Tensor]:
    """State for an update that was built anew (momentum switched on, a group added): what exists is kept, the rest starts.

    A velocity that comes without a count of its updates has had at least one.

    Args:
        update: what the state is for.
        old: state by name.
        parameters: tensors by name, for the layout of new state.
        old_spec: what ``old`` belongs to. Of another class nothing is kept: rules use the same names for different values, and
            Adam's first moment as RMSprop's squared average has no square root. None: the same class.
    """
    state = new_state(update, parameters)
    if old_spec is not None and old_spec.rule != update.spec.rule:
        return state
    for entry in _states(update):
        if entry.name in old:
            state[entry.name] = old[entry.name].to(entry.dtype)
        elif _slot(entry) is STEP and any(f"{prefix}___{_owner(entry)}" in old for prefix in ("Accl", "Accl1")):
            state[entry.name].fill_(1)
    return state


def export_state(update: Update, state: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer) -> Dict[str, Any]:
    """The state in the format of ``optimizer.state_dict()``, as torch of this version would have it.

    Tensors are copies. A parameter that has not been updated has no entry, as in torch. Parameters that are not in the update
    keep the entry that they have on the host.
    """
    packed = torch.optim.Optimizer.state_dict(optimizer)
    positions = _positions(update)
    own = {positions[name] for name in update.names("parameter")}
    entries: Dict[int, Dict[str, Any]] = {index: value for index, value in packed["state"].items() if index not in own}
    for name in update.names("parameter"):
        values = {_slot(entry).torch_key: state[entry.name] for entry in _states(update) if _owner(entry) == name}
        step = values.pop(STEP.torch_key, None)
        if not values or (step is not None and not step.item()):
            continue
        entry = entries[positions[name]] = {key: value.detach().clone() for key, value in values.items()}
        if step is not None and update.spec.rule != "SGD":  # SGD's count is ours: torch has none
            entry[STEP.torch_key] = step.detach().clone() if _step_is_tensor(update.spec.rule) else int(step.item())
    return {"state": dict(sorted(entries.items())), "param_groups": packed["param_groups"]}


@lru_cache(maxsize=None)
def _step_is_tensor(rule: str) -> bool:
    """Whether the installed torch counts updates in a tensor; found out by one update."""
    classes = {"Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW, "RMSprop": torch.optim.RMSprop}
    if rule not in classes:
        return False
    weight = torch.zeros(1, requires_grad=True)
    weight.grad = torch.ones(1)
    optimizer = classes[rule]([weight])
    optimizer.step()
    return isinstance(optimizer.state[weight]["step"], torch.Tensor)


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
                f"State {slot.torch_key!r} of parameter {_owner(entry)!r} has shape {tuple(tensor.shape)}, not {entry.shape}. "
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
