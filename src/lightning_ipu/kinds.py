"""How a step came by each of its scalars: by a sum over the samples, a mean, a maximum or a minimum.

The scalars of several micro-batches become the scalar of one larger batch accordingly: the loss of 2B samples is the mean of two losses of
B, their number of hits is the sum of two numbers. The kind is read off the operations while the step is captured. What cannot be told is
taken for a mean, except whole numbers, which are taken for counts.
"""

import functools
import inspect
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Sequence, Tuple

import torch
from torch.overrides import TorchFunctionMode

from lightning_ipu import live_names, live_torch
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
_MAKING = {torch.tensor, torch.as_tensor, torch.scalar_tensor}


class Kinds(TorchFunctionMode):
    """Notes the kind of every scalar that is computed while it is entered, and lets live numbers into new tensors.

    Args:
        micro_rows: samples of a micro-batch: a sum divided by them is a mean.
        constants: tensors that do not depend on the batch, such as weights. What is made from these alone does not either: it is the
            same for all micro-batches, and no sum over samples.
    """

    def __init__(self, micro_rows: Optional[int], constants: Iterable[torch.Tensor] = ()) -> None:
        super().__init__()
        self._micro_rows = micro_rows
        self._constants: Dict[int, torch.Tensor] = {id(tensor): tensor for tensor in constants}
        # Tensors are kept, so that no other one gets the same id.
        self._known: Dict[int, Tuple[torch.Tensor, str]] = {}

    def of(self, value: Any) -> Optional[str]:
        """The kind of a scalar tensor, if it is known."""
        if id(value) in self._constants:
            return MEAN
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
        if live_names.are_replaced():
            args = tuple(live_names.original_of(arg) for arg in args)
            kwargs = {name: live_names.original_of(value) for name, value in kwargs.items()}
        if func in _MAKING and any(_has_live(arg) for arg in (*args, *kwargs.values())):
            made = _made_of_live(args, kwargs)
            self._constants[id(made)] = made
            return made
        result = live_torch.item(*args) if func is torch.Tensor.__getitem__ and is_live(args[1]) else NotImplemented
        if result is NotImplemented:
            result = func(*args, **kwargs)
        self._note_constants(func, args, kwargs, result)
        if isinstance(result, torch.Tensor) and result.dim() == 0:
            kind = self._kind(func, args, kwargs)
            if kind is not None:
                self._known[id(result)] = (result, kind)
        return result

    def _note_constants(self, func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any) -> None:
        if all(id(tensor) in self._constants for tensor in _tensors_in((args, kwargs))):
            self._constants.update((id(tensor), tensor) for tensor in _tensors_in(result))
            return
        name = getattr(func, "__name__", "")
        if name == "__setitem__" or (name.endswith("_") and not name.endswith("__")):
            self._constants.pop(id(args[0]) if args else 0, None)

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


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors_in(item)


def _has_live(value: Any) -> bool:
    return is_live(value) or (isinstance(value, (list, tuple)) and any(_has_live(item) for item in value))


def _made_of_live(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> torch.Tensor:
    given = list(args) + [kwargs[name] for name in ("data", "s") if name in kwargs]
    return _tensor_of(given[0], kwargs.get("dtype"))


def _tensor_of(value: Any, dtype: Optional[torch.dtype]) -> torch.Tensor:
    """A tensor of numbers and nested lists of them, some live."""
    if is_live(value):
        if dtype is None:
            dtype = torch.get_default_dtype() if isinstance(value, float) else torch.bool if isinstance(value, bool) else torch.int64
        made: torch.Tensor = value.as_tensor().to(dtype)
        return made
    if not isinstance(value, (list, tuple)):
        return torch.as_tensor(value, dtype=dtype)
    parts = [_tensor_of(item, dtype) for item in value]
    common = functools.reduce(torch.promote_types, [part.dtype for part in parts])
    return torch.stack([part.to(common) for part in parts])


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
