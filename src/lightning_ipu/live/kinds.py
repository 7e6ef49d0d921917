"""How a step came by each of its scalars: by a sum over the samples, a mean, a maximum or a minimum.

The scalars of several micro-batches become the scalar of one larger batch accordingly: the loss of 2B samples is the mean of two losses of
B, their number of hits is the sum of two numbers. The kind is read off the operations while the step is captured. What cannot be told is
taken for a mean, except whole numbers, which are taken for counts. A function of such scalars (a ratio of counts, the root of a mean) is
computed again from the joined ones.
"""

import functools
import inspect
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Sequence, Set, Tuple

import torch
from torch.overrides import TorchFunctionMode

from lightning_ipu.live import names as live_names
from lightning_ipu.live import torch_functions as live_torch
from lightning_ipu.live.numbers import is_live

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
# Functions of scalars alone: of joined scalars they give what the larger batch gives.
_POINTWISE = (
    _UNCHANGED
    | _SCALING
    | _ADDING
    | frozenset("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square pow __pow__ __rpow__ reciprocal abs __abs__ sigmoid tanh".split())
    | frozenset("clamp clip clamp_min clamp_max maximum minimum rsub __rsub__ __rdiv__ __rtruediv__ nan_to_num".split())
)
_MAKING = {torch.tensor, torch.as_tensor, torch.scalar_tensor}


@dataclass(frozen=True)
class Derived:
    """A scalar that is a function of other scalars: a ratio of sums, the root of a mean.

    Attributes:
        function: of torch.
        args, kwargs: what it was called with, tensors and numbers.
    """

    function: Callable[..., Any]
    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]


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
        self._derived: Dict[int, Tuple[torch.Tensor, Derived]] = {}
        self._changed: Set[int] = set()
        # Elements of the tensors with one row per sample: a sum divided by one of these is a mean.
        self._counts: Set[int] = {micro_rows} if micro_rows is not None else set()

    def of(self, value: Any) -> Optional[str]:
        """The kind of a scalar tensor, if it is known."""
        if id(value) in self._constants:
            return MEAN
        found = self._known.get(id(value))
        return found[1] if found is not None else None

    def derivation(self, value: Any) -> Optional[Derived]:
        """How a scalar of no kind of its own follows from others, if it does."""
        found = self._derived.get(id(value))
        if found is None or any(id(tensor) in self._changed for tensor in (value, *_tensors_in(found[1].args))):
            return None
        return found[1]

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
        self._note_counts((args, kwargs, result))
        if isinstance(result, torch.Tensor) and result.dim() == 0:
            self._note_scalar(func, args, kwargs, result)
        # Last, as a change in place makes a constant none.
        self._note_constants(func, args, kwargs, result)
        return result

    def _note_scalar(self, func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any], result: torch.Tensor) -> None:
        is_changed = any(result is arg for arg in args)
        parts = list(_tensors_in((args, kwargs)))
        from_derived = any(id(part) in self._derived for part in parts)
        kind = None if from_derived else self._kind(_plain_name(func), func, args, kwargs)
        if is_changed:
            self._changed.add(id(result))
            self._known.pop(id(result), None)
        if kind is not None:
            self._known[id(result)] = (result, kind)
        elif (
            getattr(func, "__name__", "") in _POINTWISE
            and parts
            and not is_changed
            and all(id(part) in self._known or id(part) in self._derived for part in parts)
            and not any(_has_live(arg) for arg in (*args, *kwargs.values()))
        ):
            self._derived[id(result)] = (result, Derived(func, args, kwargs))

    def _note_counts(self, value: Any) -> None:
        for tensor in _tensors_in(value):
            if tensor.dim() and tensor.shape[0] == self._micro_rows:
                self._counts.add(tensor.numel())

    def _note_constants(self, func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any) -> None:
        if all(id(tensor) in self._constants for tensor in _tensors_in((args, kwargs))):
            self._constants.update((id(tensor), tensor) for tensor in _tensors_in(result))
            return
        name = getattr(func, "__name__", "")
        if name == "__setitem__" or _plain_name(func) != name:
            self._constants.pop(id(args[0]) if args else 0, None)

    def _kind(self, name: str, func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Optional[str]:
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
            constant = [id(arg) in self._constants for arg in (first, args[1])]
            if constant[0] != constant[1]:  # a total that began with zero
                return right if constant[0] else left
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
        if kind == SUM and divides and type(second) in (int, float) and second in self._counts:
            return MEAN
        return kind if kind in (SUM, MEAN) else None


def _plain_name(func: Callable[..., Any]) -> str:
    """The name of the function that changes nothing in place: ``add`` for ``add_``, ``__add__`` for ``__iadd__``."""
    name = getattr(func, "__name__", "")
    if name.startswith("__i") and name[3:-2] in ("add", "sub", "mul", "truediv", "div", "pow"):
        return f"__{name[3:]}"
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


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
