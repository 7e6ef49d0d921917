"""How a step came by each of its scalars: by a sum over the samples, a mean, a maximum or a minimum.

The scalars of several micro-batches become the scalar of one larger batch accordingly: the loss of 2B samples is the mean of two losses of
B, their number of hits is the sum of two numbers. The kind is read off the operations while the step is captured. What cannot be told is
taken for a mean, except whole numbers, which are taken for counts.
"""

import inspect
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import torch
from torch.overrides import TorchFunctionMode

from lightning_ipu.live import is_live

SUM, MEAN, MAX, MIN = "sum", "mean", "max", "min"
_REDUCING = {
    "sum": SUM,
    "nansum": SUM,
    "count_nonzero": SUM,
    "mean": MEAN,
    "nanmean": MEAN,
    "max": MAX,
    "amax": MAX,
    "min": MIN,
    "amin": MIN,
}
# A sum or a mean of scaled values is the scaled sum or mean; casting and copying change nothing.
_UNCHANGED = frozenset(
    ["neg", "__neg__", "negative", "detach", "clone", "to", "float", "double", "half", "int", "long", "type", "squeeze", "reshape", "view"]
)
_SCALING = frozenset(["mul", "multiply", "__mul__", "__rmul__", "div", "true_divide", "divide", "__truediv__", "__div__"])
_ADDING = frozenset(["add", "__add__", "__radd__", "sub", "subtract", "__sub__", "__rsub__"])
_MAKING = {torch.tensor, torch.as_tensor, torch.full, torch.scalar_tensor}


class Kinds(TorchFunctionMode):
    """Notes the kind of every scalar that is computed while it is entered, and lets live numbers into new tensors.

    Args:
        micro_rows: samples of a micro-batch: a sum divided by them is a mean.
    """

    def __init__(self, micro_rows: Optional[int]) -> None:
        super().__init__()
        self._micro_rows = micro_rows
        # Tensors are kept, so that no other one gets the same id.
        self._known: Dict[int, Tuple[torch.Tensor, str]] = {}

    def of(self, value: Any) -> Optional[str]:
        """The kind of a scalar tensor, if it is known."""
        found = self._known.get(id(value))
        return found[1] if found is not None else None

    def mark_same(self, value: torch.Tensor, other: torch.Tensor) -> None:
        """Gives ``value`` the kind of ``other``."""
        kind = self.of(other)
        if kind is not None:
            self._known[id(value)] = (value, kind)

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _MAKING and any(is_live(arg) for arg in args):
            return _made_of_live(func, args, kwargs)
        result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor) and result.dim() == 0:
            kind = self._kind(func, args, kwargs)
            if kind is not None:
                self._known[id(result)] = (result, kind)
        return result

    def _kind(self, func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Optional[str]:
        name = getattr(func, "__name__", "")
        first = args[0] if args else None
        if name in _REDUCING and isinstance(first, torch.Tensor):
            # Of a scalar there is nothing to reduce.
            return _REDUCING[name] if first.dim() else self.of(first)
        if name in _UNCHANGED:
            return self.of(first)
        if name in _SCALING and len(args) > 1:
            return self._scaled(name, first, args[1])
        if name in _ADDING and len(args) > 1:
            left, right = self.of(first), self.of(args[1])
            if left == right:
                return left
            return left or right if MEAN in (left, right) and None in (left, right) else None
        return _reduction_argument(func, args, kwargs)

    def _scaled(self, name: str, first: Any, second: Any) -> Optional[str]:
        left, right = self.of(first), self.of(second)
        if left is not None and right is not None:
            return None  # a ratio or a product of two results
        kind = left or right
        divides = "div" in name
        if kind == SUM and divides and isinstance(second, int) and second == self._micro_rows:
            return MEAN
        return kind if kind in (SUM, MEAN) else None


def _made_of_live(func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> torch.Tensor:
    number = next(arg for arg in args if is_live(arg))
    tensor = number._needs.as_tensor(number._expression, number._value)
    dtype = kwargs.get("dtype")
    if dtype is None:
        dtype = torch.get_default_dtype() if isinstance(number._value, float) else torch.int64
    tensor = tensor.to(dtype)
    if func is torch.full:
        size = args[0]
        return tensor.expand(size if isinstance(size, (tuple, list)) else (size,)).clone()
    return tensor


def _reduction_argument(func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Optional[str]:
    """The kind of a torch loss, by its argument ``reduction``."""
    if not getattr(func, "__module__", "") == "torch.nn.functional":
        return None
    try:
        bound = inspect.signature(func).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    bound.apply_defaults()
    reduction = bound.arguments.get("reduction")
    return {"mean": MEAN, "batchmean": MEAN, "sum": SUM}.get(reduction) if isinstance(reduction, str) else None
