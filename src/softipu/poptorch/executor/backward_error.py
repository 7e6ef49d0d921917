"""backward() on what a model on an IPU returned: the backward pass has been done, or is done by a trainingModel.

PyTorch's own message ("does not require grad") says nothing of that. Returned tensors are plain tensors, so they are remembered
here, and torch.Tensor.backward is replaced once by a function that knows them and does for all others what it did before.
"""

import functools
import weakref
from typing import Any, Dict, Iterable

import torch

from softipu.errors import Error

_returned: "Dict[int, weakref.ref[torch.Tensor]]" = {}
_original = torch.Tensor.backward


def refuse_backward(tensors: Iterable[torch.Tensor]) -> None:
    """Makes backward() on these tensors an error that says what to do."""
    if torch.Tensor.backward is _original:
        torch.Tensor.backward = _backward  # type: ignore[method-assign]
    for tensor in tensors:
        _returned[id(tensor)] = weakref.ref(tensor, functools.partial(_forget, id(tensor)))


def _forget(key: int, reference: Any) -> None:
    if _returned.get(key) is reference:
        del _returned[key]


@functools.wraps(_original)
def _backward(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    known = _returned.get(id(self))
    if known is not None and known() is self and self.grad_fn is None and not self.requires_grad:
        raise Error(
            "backward() cannot be called explicitly on outputs of a PopTorch model. If you're using a trainingModel, the backwards pass "
            "is performed automatically when invoking the model. If you're using an inferenceModel, you should use a trainingModel instead."
        )
    return _original(self, *args, **kwargs)
