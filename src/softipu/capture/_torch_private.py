"""Everything that softipu takes from PyTorch's private modules, in one place.

Each name says what it is used for and on which versions it was checked.
"""

from typing import Any, Callable, Optional, Tuple

import torch
from torch._subclasses.fake_tensor import (  # checked on 2.0.1 and 2.13
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.fx.experimental.proxy_tensor import get_innermost_proxy_mode, make_fx  # checked on 2.0.1 and 2.13

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorMode",
    "disable_torch_function",
    "graph_being_traced",
    "is_traced",
    "native_function",
    "new_fake_mode",
    "raw_op",
    "run_below_autograd",
    "trace",
    "version_of",
]

# Keeps a subclass's __torch_function__ from being called again inside itself. Checked on 2.0.1 and 2.13.
disable_torch_function = torch._C.DisableTorchFunctionSubclass


def run_below_autograd(function: Callable[..., Any], arguments: Tuple[Any, ...]) -> Any:
    """``function(*arguments)`` beneath autograd's dispatch keys: no tape, no history on results.

    The guard holds while the object lives; 2.0.1 knows no other form. Checked on 2.0.1 and 2.13.
    """
    guard = torch._C._AutoDispatchBelowAutograd()
    try:
        return function(*arguments)
    finally:
        del guard


def new_fake_mode() -> FakeTensorMode:
    """A mode whose tensors have fixed shapes and no values: what depends on data raises, as it cannot be compiled."""
    return FakeTensorMode(allow_non_fake_inputs=True)


def trace(function: Callable[..., Any], fake_mode: FakeTensorMode, *fakes: Any) -> torch.fx.GraphModule:
    """ATen graph of ``function`` run once on ``fakes``, tensors of ``fake_mode``.

    Tensors that the function reads without taking them as arguments become constants of the graph.
    Checked on 2.0.1 and 2.13.
    """
    with fake_mode:
        return make_fx(function)(*fakes)


def graph_being_traced() -> Optional[torch.fx.Graph]:
    """The graph that ``trace`` is writing now, or None outside it. Checked on 2.0.1 and 2.13."""
    mode = get_innermost_proxy_mode()
    return None if mode is None else mode.tracer.graph


def is_traced(value: Any) -> bool:
    """Whether ``value`` stands for a tensor on the device while a step is captured."""
    return isinstance(value, FakeTensor)


def version_of(tensor: torch.Tensor) -> int:
    """In-place edits that ``tensor`` has seen; read from the base class so that no subclass hook runs."""
    return torch._C._TensorBase._version.__get__(tensor)  # type: ignore[attr-defined]


def raw_op(overload: Any) -> Callable[..., Any]:
    """The C++ callable beneath an OpOverload, without its Python layer. Checked on 2.0.1 and 2.13."""
    return getattr(overload, "_op", overload)


def native_function(name: str) -> Tuple[Any, Any]:
    """PyTorch's own Python bindings of an ATen function: (as a function, as a tensor method), None where there is none."""
    return getattr(torch._C._VariableFunctions, name, None), getattr(torch._C._TensorBase, name, None)
