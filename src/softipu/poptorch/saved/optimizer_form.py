"""An optimizer as JSON: its class, its groups by the names of the parameters, and its other numbers."""

from typing import Any, Dict, Mapping

import torch

from softipu.poptorch import optim
from softipu.poptorch.optim import Optimizer
from softipu.poptorch.optim.variable_attributes import VariableAttributes
from softipu.poptorch.saved.values import CannotSave, ValueReader, ValueWriter

_CLASSES: Dict[str, type] = {
    **{f"torch.optim.{cls.__name__}": cls for cls in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop)},
    **{f"poptorch.optim.{cls.__name__}": cls for cls in (optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.LAMB)},
}


def write_optimizer(optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.Tensor], writer: ValueWriter) -> Dict[str, Any]:
    """An optimizer as JSON, without its state. Parameters that are not among the named ones are left out.

    Raises:
        CannotSave: a value in a group that has no safe form.
    """
    names = {id(tensor): name for name, tensor in parameters.items()}
    name = next(n for cls in type(optimizer).__mro__ for n, known in _CLASSES.items() if known is cls)
    groups = []
    for group in optimizer.param_groups:
        try:
            numbers = {key: writer.write(value) for key, value in group.items() if key != "params"}
        except CannotSave as error:
            raise CannotSave(f"the optimizer: {error}") from error
        groups.append({"params": [names[id(p)] for p in group["params"] if id(p) in names], "numbers": numbers})
    form = {"class": name, "groups": groups, "attributes": {}}
    if isinstance(optimizer, Optimizer):
        variable = optimizer.variable_attrs  # type: ignore[attr-defined]
        kept = [key for key in Optimizer._kept if key != "variable_attrs" and key in vars(optimizer)]
        form["attributes"] = {key: writer.write(vars(optimizer)[key]) for key in kept}
        form["variable"] = [list(variable._variable_attributes), list(variable._allowed_attributes)]
    return form


def read_optimizer(form: Dict[str, Any], parameters: Mapping[str, torch.Tensor], reader: ValueReader) -> torch.optim.Optimizer:
    """The optimizer of a form. ValueError, KeyError: the form is damaged."""
    cls = _CLASSES[form["class"]]
    groups = []
    for group in form["groups"]:
        numbers = {key: reader.read(value) for key, value in group["numbers"].items()}
        groups.append({**numbers, "params": [parameters[name] for name in group["params"]]})
    optimizer: torch.optim.Optimizer = cls(groups, lr=groups[0]["lr"])
    for key, value in form["attributes"].items():
        if key in Optimizer._kept:
            setattr(optimizer, key, reader.read(value))
    if "variable" in form:
        optimizer.variable_attrs = VariableAttributes(*form["variable"])  # type: ignore[attr-defined]
    return optimizer
