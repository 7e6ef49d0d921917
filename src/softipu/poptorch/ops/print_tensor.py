"""ipu_print_tensor: prints a tensor, and its gradient, whenever the step runs."""

import sys
from typing import Any, Tuple

import torch

from softipu.capture import current
from softipu.capture.python_calls import call_python
from softipu.errors import Error
from softipu.graph.python_calls import PythonCall
from softipu.poptorch.ops.tensor_text import FLOAT_FORMATS, TensorTextFormat, tensor_text


class PrintTensor(PythonCall):
    """Prints a tensor to the standard error stream and returns a copy.

    Args:
        title: stands before the value; nothing does if it is empty.
        form: the layout.
    """

    __name__ = "print_tensor"

    def __init__(self, title: str, form: TensorTextFormat) -> None:
        self.title, self.form = title, form

    def __call__(self, tensor: torch.Tensor) -> Tuple[torch.Tensor]:
        text = tensor_text(tensor.detach(), self.form)
        print(f"{self.title}: {text}" if self.title else text, file=sys.stderr, flush=True)
        return (tensor.clone(),)


class _Printed(torch.autograd.Function):
    """Prints in the forward pass and, if asked to, the gradient in the backward pass."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, printer: PrintTensor, print_gradient: bool) -> torch.Tensor:
        ctx.printer = PrintTensor(f"Gradient__{printer.title}", printer.form) if print_gradient else None
        return call_python(printer, [tensor], [tensor])[0]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        if ctx.printer is not None:
            (gradient,) = call_python(ctx.printer, [gradient], [gradient])
        return gradient, None, None


def ipu_print_tensor(
    tensor: torch.Tensor,
    title: str = "",
    print_gradient: bool = True,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 80,
    digits: int = 4,
    float_format: str = "auto",
    separator: str = ", ",
    open_bracket: str = "(",
    close_bracket: str = ")",
) -> torch.Tensor:
    """Prints ``tensor`` to the standard error stream whenever the step runs, once for each micro-batch of each replica.

    Use what it returns: a print whose result nobody uses is dropped.

    Args:
        tensor: any tensor.
        title: stands before the value; the gradient's title is ``Gradient__<title>``.
        print_gradient: whether the backward pass prints the gradient.
        summarise_threshold: tensors with more elements are shortened to their edges; 0: never.
        edge_items: elements that are left at each end of a dimension then.
        max_line_width: characters after which a line goes on in the next; 0: never.
        digits: of a number, before and after the point, without exponent. 0: numbers are not aligned.
        float_format: auto, fixed, scientific, or none (each number for itself).
        separator, open_bracket, close_bracket: between and around the elements of a dimension.

    Returns:
        The tensor. Outside an IPU nothing is printed.

    Raises:
        Error: no tensor.
        KeyError: an unknown float_format.
    """
    if not isinstance(tensor, torch.Tensor):
        raise Error(f"ipu_print_tensor prints a torch.Tensor, given a {type(tensor).__name__}: {tensor!r}.")
    if float_format not in FLOAT_FORMATS:
        raise KeyError(f"Unknown float_format {float_format!r} of ipu_print_tensor; allowed are {', '.join(FLOAT_FORMATS)}.")
    form = TensorTextFormat(summarise_threshold, edge_items, max_line_width, digits, float_format, separator, open_bracket, close_bracket)
    if current() is None:
        return tensor
    return _Printed.apply(tensor, PrintTensor(title, form), print_gradient)
