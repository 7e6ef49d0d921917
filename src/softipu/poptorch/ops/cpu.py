"""CPU: Python code that runs on the host in the middle of a step. Inference only."""

from typing import Any, Callable, List, Sequence, Tuple

import torch

from softipu.capture import current
from softipu.capture.context import paused
from softipu.capture.python_calls import call_python
from softipu.errors import Error
from softipu.graph.python_calls import PythonCall


class HostCallback(PythonCall):
    """A user's function of tensors.

    Args:
        function: the user's; gets copies of its inputs.
        outputs: for the shapes and dtypes of what it returned at capture; it must return the same later.
    """

    __name__ = "host_callback"

    def __init__(self, name: str, function: Callable[..., Any], outputs: Sequence[torch.Tensor]) -> None:
        self.name, self.function = name, function
        self.expected = [(t.shape, t.dtype) for t in outputs]

    def __call__(self, *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        with torch.no_grad():
            results = _as_list(self.function(*[t.clone() for t in tensors]))
        got = [(t.shape, t.dtype) for t in results]
        if got != self.expected:
            raise Error(
                f"The function of poptorch.CPU '{self.name}' returned {_text(got)}, but {_text(self.expected)} when the model was "
                "compiled. It must return tensors of the same shapes and types every time."
            )
        return tuple(t.detach().clone() for t in results)


class CPU:
    """Runs a function or module on the host while the rest of the model runs on the IPU.

    The function may do what an IPU cannot: branch on values, use NumPy. It is called once at compilation, on zeros, to learn
    the shapes of what it returns. Outside an IPU it is simply called.

    Args:
        layer_to_call: takes tensors and returns a tensor, or a list or tuple of them. A module's parameters stay on the host
            and are not trained.
        ID: name of the call in messages.
    """

    def __init__(self, layer_to_call: Callable[..., Any], ID: str) -> None:
        self._layer_to_call = layer_to_call
        if isinstance(layer_to_call, torch.nn.Module):
            layer_to_call.requires_grad_(False)
        self._ID = ID

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the function returns. Error: in a training model, or other inputs than tensors."""
        context = current()
        if context is None:
            return self._layer_to_call(*inputs, **kwargs)
        if context.training:
            raise Error(
                f"poptorch.CPU is only supported in inference, but '{self._ID}' is called in a training model. Compute it before the step."
            )
        for index, value in enumerate(inputs):
            if not isinstance(value, torch.Tensor):
                raise Error(f"poptorch.CPU '{self._ID}' takes tensors, but what is given at index {index} is a {type(value).__name__}.")
        with paused():
            zeros = [torch.zeros(t.shape, dtype=t.dtype) for t in inputs]
            returned = self._layer_to_call(*zeros, **kwargs)
        examples = _as_list(returned)
        function = self._layer_to_call if not kwargs else lambda *tensors: self._layer_to_call(*tensors, **kwargs)
        results = call_python(HostCallback(self._ID, function, examples), list(inputs), examples)
        return type(returned)(results) if isinstance(returned, (list, tuple)) else results[0]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_layer_to_call" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._layer_to_call, name)


def _as_list(value: Any) -> List[torch.Tensor]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _text(outputs: Sequence[Tuple[torch.Size, torch.dtype]]) -> str:
    return ", ".join(f"{str(dtype)[6:]}{list(shape)}" for shape, dtype in outputs)
