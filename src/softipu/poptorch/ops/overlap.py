"""Host transfers that overlap with computation on hardware: marks on the inputs and outputs of a model, which change no value."""

from typing import Any

from softipu.capture._torch_private import FakeTensor
from softipu.errors import Error
from softipu.poptorch.enums import OverlapMode
from softipu.poptorch.inputs.structure import ConstantSpec, Spec, flatten, unflatten
from softipu.poptorch.ops.overlap_rules import current_marks


def set_overlap_for_input(input_tensors: Any, mode: OverlapMode) -> Any:
    """The same structure of inputs (a tensor, or lists, tuples and dictionaries of tensors), marked for overlapped transfer.

    Raises:
        Error: something that is no tensor in the structure, or no OverlapMode; while compiling, a tensor that is no input of the model.
    """
    return _marked(input_tensors, mode, "inputs")


def set_overlap_for_output(output_tensors: Any, mode: OverlapMode) -> Any:
    """The same structure of outputs (a tensor, or lists, tuples and dictionaries of tensors), marked for overlapped transfer.

    Raises:
        Error: something that is no tensor in the structure, or no OverlapMode; once compiled, a tensor that is not returned once.
    """
    return _marked(output_tensors, mode, "outputs")


def _marked(structure: Any, mode: OverlapMode, kind: str) -> Any:
    if not isinstance(mode, OverlapMode):
        raise Error(f"The mode of overlapped {kind} must be a poptorch.OverlapMode, given {mode!r}.")
    tensors, spec = flatten(structure)
    _check_only_tensors(spec, kind)
    marks = current_marks()
    if marks is None or mode is OverlapMode.NoOverlap:
        return structure
    mark = marks.mark_input if kind == "inputs" else marks.mark_output
    return unflatten(spec, [mark(t) if kind == "inputs" or isinstance(t, FakeTensor) else t for t in tensors])


def _check_only_tensors(spec: Spec, kind: str) -> None:
    if isinstance(spec, ConstantSpec):
        raise Error(f"You may only set overlap for torch.tensor {kind}. {spec.kind} is not supported.")
    for child in spec.children().values():
        _check_only_tensors(child, kind)
