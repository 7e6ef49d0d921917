"""Loops and choices on the device: for_loop and cond. Inference only."""

from typing import Any, Callable, List, Sequence

import torch

from softipu.capture import current
from softipu.capture.bodies import cut_body
from softipu.capture.python_calls import call_python
from softipu.errors import Error
from softipu.graph.control_flow import Choice, Loop

TensorFunction = Callable[..., Any]


def for_loop(count: int, body: TensorFunction, inputs: List[torch.Tensor]) -> List[torch.Tensor]:
    """Runs ``body`` ``count`` times; each run gets what the one before returned.

    Args:
        count: number of runs.
        body: takes as many tensors as it returns; may use tensors from around it. Its in-place changes do not leave it.
        inputs: what the first run gets.

    Returns:
        What the last run returned. Outside an IPU the loop runs on the host.

    Raises:
        ValueError: ``inputs`` is no list of tensors.
        Error: in a training model, or ``body`` returns another number of tensors, other shapes or other types.
    """
    _check_inputs("poptorch.for_loop", "input tensors (inputs)", inputs)
    if current() is None:
        values = [t.clone() for t in inputs]
        for _ in range(count):
            values = _as_list(body(*values))
        return values
    _refuse_training("poptorch.for_loop()")
    copies = [t.clone() for t in inputs]
    inner = cut_body(body, copies)
    _check_same("poptorch.for_loop", "inputs", inputs, "outputs of the body", inner.outputs)
    return list(call_python(Loop(count, inner.graph_module, len(copies)), inner.given, inner.outputs))


def cond(
    condition: torch.Tensor,
    then_body: TensorFunction,
    then_inps: List[torch.Tensor],
    else_body: TensorFunction,
    else_inps: List[torch.Tensor],
) -> List[torch.Tensor]:
    """Runs one of two functions, by a tensor.

    Args:
        condition: a bool tensor of one element.
        then_body, else_body: take any number of tensors, may use tensors from around them, and return the same number of
            tensors with the same shapes and types. Their in-place changes do not leave them.
        then_inps, else_inps: what they get.

    Returns:
        What the function that ran returned, as a list. Outside an IPU it runs on the host.

    Raises:
        ValueError: inputs that are no lists of tensors.
        Error: in a training model, a condition that is no bool tensor of one element, or functions whose outputs differ.
    """
    for name, given in (("then_inps", then_inps), ("else_inps", else_inps)):
        _check_inputs("poptorch.cond", f"{name} tensors", given)
    if current() is None:
        return _as_list(then_body(*then_inps) if bool(condition) else else_body(*else_inps))
    _refuse_training("poptorch.cond()")
    if condition.dtype != torch.bool or condition.numel() != 1:
        raise Error(
            f"The condition of poptorch.cond() is a bool tensor of one element, given {condition.dtype} with shape "
            f"{list(condition.shape)}. Compare first: x.sum() > 0."
        )
    then_copies, else_copies = [t.clone() for t in then_inps], [t.clone() for t in else_inps]
    first, second = cut_body(then_body, then_copies), cut_body(else_body, else_copies)
    _check_same("poptorch.cond", "outputs of then_body", first.outputs, "outputs of else_body", second.outputs)
    choice = Choice((first.graph_module, second.graph_module), len(first.given))
    return list(call_python(choice, [condition.clone(), *first.given, *second.given], first.outputs))


def _check_inputs(function: str, what: str, inputs: Any) -> None:
    if not isinstance(inputs, list):
        raise ValueError(f"{function} expects {what} to be a list of tensors, given a {type(inputs).__name__}. (Object is not list)")
    for index, tensor in enumerate(inputs):
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(
                f"{function} expects {what} to be a list of tensors. (Object contained in list at index {index} is not torch.tensor)"
            )


def _refuse_training(function: str) -> None:
    context = current()
    if context is not None and context.training:
        raise Error(f"{function} is only supported in inference. Train with a Python loop or torch.where, which the capture unrolls.")


def _check_same(function: str, what: str, ours: Sequence[torch.Tensor], other: str, theirs: Sequence[torch.Tensor]) -> None:
    if len(ours) != len(theirs):
        raise Error(f"{function}: {len(ours)} {what}, but {len(theirs)} {other}. Both must have the same number of tensors.")
    for index, (a, b) in enumerate(zip(ours, theirs)):
        if a.dtype != b.dtype or a.shape != b.shape:
            raise Error(
                f"{function}: at index {index} the {what} have {a.dtype} with shape {list(a.shape)}, but the {other} have {b.dtype} "
                f"with shape {list(b.shape)}. Both must agree."
            )


def _as_list(value: Any) -> List[torch.Tensor]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
