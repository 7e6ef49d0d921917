"""Checks of single results for what an IPU raises floating-point exceptions for."""

from typing import Any, Sequence, Tuple

import torch

from softipu.errors import Error
from softipu.graph.python_calls import PythonCall

# Ops whose infinite results from finite values come from a division by zero.
_DIVIDES = frozenset("div reciprocal rsqrt log log2 log10 log1p pow true_divide floor_divide atanh xlogy".split())


class CheckFloats(PythonCall):
    """Takes an op's result and its float inputs and returns the result as it is.

    Args:
        op: name of the ATen op.
        module: path of the module that called it.
        backward: whether it is of the backward pass.
    """

    __name__ = "check_floats"

    def __init__(self, op: str, module: str, *, backward: bool) -> None:
        self.op, self.module, self.backward = op, module, backward

    def __call__(self, result: Any, *inputs: torch.Tensor) -> Any:
        found = exception_of(self.op, _floats(result), inputs)
        if found:
            where = f" in module '{self.module}'" if self.module else ""
            passed = " in the backward pass" if self.backward else ""
            raise Error(
                f"Floating point exception: {found} by aten.{self.op}{where}{passed}. Look at its inputs by poptorch.ipu_print_tensor or "
                "Options.anchorTensor; Options.Precision.enableFloatingPointExceptions(False) lets such values pass.",
                type="poplar_application_runtime_error",
            )
        return result


def exception_of(op: str, results: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> str:
    """The exception that an op raises, or an empty text.

    A NaN among inputs or results is an invalid operation. An infinite result from finite inputs is a division by zero or an
    overflow; one from infinite inputs is none.
    """
    if any(bool(torch.isnan(t).any()) for t in (*inputs, *results)):
        return "invalid operation (not a number)"
    if any(bool(torch.isinf(t).any()) for t in results) and not any(bool(torch.isinf(t).any()) for t in inputs):
        return "division by zero" if op.rstrip("_") in _DIVIDES and _has_zero(op, inputs) else "overflow"
    return ""


def _has_zero(op: str, inputs: Sequence[torch.Tensor]) -> bool:
    divisor = inputs[-1:] if op.rstrip("_") in ("div", "true_divide", "floor_divide") else inputs
    return any(bool((t == 0).any()) or op.rstrip("_") in ("log1p", "atanh") for t in divisor)


def _floats(result: Any) -> Tuple[torch.Tensor, ...]:
    items = result if isinstance(result, (list, tuple)) else (result,)
    return tuple(t for t in items if isinstance(t, torch.Tensor) and t.is_floating_point())
