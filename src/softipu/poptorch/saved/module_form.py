"""A module as JSON: for each of its modules the class, plain attributes, and where weights and children hang.

Reading makes each module without calling its class: an empty nn.Module of that class, with the attributes that were written.
The class itself, and so the code, is the program's own.
"""

from typing import Any, Dict, List, Sequence

import torch
from torch import nn

from softipu.poptorch.blocks.marking import BeginBlock, block_of
from softipu.poptorch.saved.known_classes import UnknownClass, class_name, find_class
from softipu.poptorch.saved.values import CannotSave, ValueReader, ValueWriter
from softipu.poptorch.weights import module_destroy, wrapped_weights

# What nn.Module itself keeps, or what is made anew.
_OWN = frozenset(vars(nn.Module())) | {"_flat_weights", "_flat_weight_refs", "_is_hf_initialized"}
_HOOKS = tuple(name for name in vars(nn.Module()) if "hook" in name and name not in ("_is_full_backward_hook",))


def write_module(module: nn.Module, writer: ValueWriter) -> Dict[str, Any]:
    """A module as JSON; its weights go into the writer's tensors.

    Raises:
        CannotSave: something that has no safe form; names the module and the attribute.
    """
    modules = {id(m): i for i, m in enumerate(module.modules())}
    weights: Dict[int, int] = {}
    listed: List[Any] = []
    for part in module.modules():
        for tensor in [*part._parameters.values(), *part._buffers.values()]:
            if tensor is not None and id(tensor) not in weights:
                weights[id(tensor)] = len(listed)
                listed.append([writer.tensor(wrapped_weights.plain(tensor)), isinstance(tensor, nn.Parameter), tensor.requires_grad])
    known = {**{key: f"module {i}" for key, i in modules.items()}, **{key: f"weight {i}" for key, i in weights.items()}}
    inner = writer.knowing(known)
    return {"modules": [_write_one(m, name, modules, weights, inner) for name, m in module.named_modules()], "weights": listed}


def _write_one(part: nn.Module, name: str, modules: Dict[int, int], weights: Dict[int, int], writer: ValueWriter) -> Dict[str, Any]:
    where = f"the module '{name}' ({type(part).__name__})" if name else f"the module ({type(part).__name__})"
    try:
        cls = class_name(type(part))
    except UnknownClass as error:
        raise CannotSave(f"{where}: {error}") from error
    block = block_of(part)
    for hooks in _HOOKS:
        kept = [h for h in vars(part).get(hooks, {}).values() if not (hooks == "_forward_pre_hooks" and block is not None and h is block)]
        if kept:
            raise CannotSave(f"{where} has hooks ({hooks}: {kept[0]!r}), which are code")
    attributes = {}
    for key, value in vars(part).items():
        if key not in _OWN and not isinstance(value, module_destroy.ModuleDestroy):
            try:
                attributes[key] = writer.write(value)
            except CannotSave as error:
                raise CannotSave(f"{where} has an attribute '{key}': {error}") from error
    return {
        "class": cls,
        "training": part.training,
        "parameters": {k: None if t is None else weights[id(t)] for k, t in part._parameters.items()},
        "buffers": {k: None if t is None else weights[id(t)] for k, t in part._buffers.items()},
        "not_in_state_dict": sorted(part._non_persistent_buffers_set),
        "children": {k: None if m is None else modules[id(m)] for k, m in part._modules.items()},
        "attributes": attributes,
        "block": None if block is None else list(block.ids),
    }


def read_module(form: Dict[str, Any], tensors: Sequence[torch.Tensor]) -> nn.Module:
    """The module of a form that ``write_module`` made.

    Raises:
        UnknownClass: a class that the program has not imported.
        ValueError, KeyError, IndexError, TypeError: the form is damaged.
    """
    weights = [_weight(tensors[i], is_parameter, requires_grad) for i, is_parameter, requires_grad in form["weights"]]
    made = [_empty(entry) for entry in form["modules"]]
    known = {**{f"module {i}": m for i, m in enumerate(made)}, **{f"weight {i}": w for i, w in enumerate(weights)}}
    reader = ValueReader(tensors, known)
    for part, entry in zip(made, form["modules"]):
        part.__dict__.update({key: reader.read(value) for key, value in entry["attributes"].items() if key not in _OWN})
        part._parameters.update({k: None if i is None else weights[i] for k, i in entry["parameters"].items()})
        part._buffers.update({k: None if i is None else weights[i] for k, i in entry["buffers"].items()})
        part._non_persistent_buffers_set.update(entry["not_in_state_dict"])
        part._modules.update({k: None if i is None else made[i] for k, i in entry["children"].items()})
        part.training = bool(entry["training"])
        if isinstance(part, nn.RNNBase):
            _flatten_again(part)
        if entry["block"] is not None:
            BeginBlock(part, *entry["block"])
    return made[0]


def _empty(entry: Dict[str, Any]) -> nn.Module:
    cls = find_class(entry["class"])
    if not issubclass(cls, nn.Module):
        raise ValueError(f"{entry['class']} is no torch.nn.Module")
    part = cls.__new__(cls)
    nn.Module.__init__(part)
    return part


def _weight(tensor: torch.Tensor, is_parameter: bool, requires_grad: bool) -> torch.Tensor:
    if is_parameter:
        return nn.Parameter(tensor, requires_grad=bool(requires_grad))
    return tensor.requires_grad_(bool(requires_grad))


def _flatten_again(rnn: nn.RNNBase) -> None:
    """The second list of its weights that a recurrent layer keeps."""
    if hasattr(rnn, "_init_flat_weights"):  # torch 2.1 and later
        rnn._init_flat_weights()
    else:
        rnn._flat_weights = [getattr(rnn, name, None) for name in rnn._flat_weights_names]
