"""The inputs that a model was compiled for, as JSON: structures, constants, and of tensors shape and dtype."""

from typing import Any, Dict, List, Tuple

import torch

from softipu.poptorch.inputs.input_mismatch import FlatCall, unflatten_call
from softipu.poptorch.saved.values import ValueReader, ValueWriter


def write_call(call: FlatCall, writer: ValueWriter) -> Dict[str, Any]:
    """A call as JSON. CannotSave: a structure, or a constant in it, that has no safe form."""
    stand_ins = [torch.empty(0) for _ in call.kinds]
    args, kwargs = unflatten_call(call, stand_ins)
    inner = writer.knowing({id(t): i for i, t in enumerate(stand_ins)})
    return {
        "args": [inner.write(value) for value in args],
        "kwargs": {name: inner.write(value) for name, value in kwargs.items()},
        "tensors": [[str(kind.dtype)[6:], list(kind.shape)] for kind in call.kinds],
    }


def read_call(form: Dict[str, Any]) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """Arguments like those of a call, with zeros for the tensors."""
    zeros: List[torch.Tensor] = [torch.zeros(shape, dtype=getattr(torch, dtype)) for dtype, shape in form["tensors"]]
    reader = ValueReader([], dict(enumerate(zeros)))
    return tuple(reader.read(value) for value in form["args"]), {name: reader.read(value) for name, value in form["kwargs"].items()}
