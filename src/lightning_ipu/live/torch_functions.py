"""Functions of torch that want a plain number where a live number may stand: replaced while a step is captured."""

import contextlib
import functools
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence, Tuple

import torch

# Given the original function and its arguments; NotImplemented leaves them to it.
_Special = Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], Any]


@contextlib.contextmanager
def taking_live(is_live: Callable[[Any], bool]) -> Iterator[None]:
    """These functions take live numbers meanwhile.

    Args:
        is_live: tells a live number.
    """
    undo: List[Tuple[Any, str, Optional[Any]]] = []
    try:
        for owner, name, special in _SPECIAL:
            undo.append((owner, name, vars(owner).get(name)))
            setattr(owner, name, _wrapped(getattr(owner, name), special, is_live))
        yield
    finally:
        for owner, name, before in reversed(undo):
            if before is None:  # inherited
                delattr(owner, name)
            else:
                setattr(owner, name, before)


def _wrapped(function: Callable[..., Any], special: _Special, is_live: Callable[[Any], bool]) -> Callable[..., Any]:
    # torch looks the method of an operator up, and is asked for its name later.
    @functools.wraps(function)
    def taking(*args: Any, **kwargs: Any) -> Any:
        if any(is_live(arg) for arg in args) or any(is_live(arg) for arg in kwargs.values()):
            result = special(function, args, kwargs)
            if result is not NotImplemented:
                return result
        return function(*args, **kwargs)

    return taking


def item(table: torch.Tensor, index: Any) -> Any:
    """``table[batch_idx]``: the row that an input of the step selects, or NotImplemented for another index.

    Kinds calls it. To set ``torch.Tensor.__getitem__`` would make tensors sequences for the rest of the process, also once it is taken
    back, and ``torch.tensor([loss, loss])`` fails then.
    """
    if not table.dim() or not isinstance(index, int) or isinstance(index, bool):
        return NotImplemented
    n_rows = table.shape[0]
    if not index.holds(lambda value: -n_rows <= value < n_rows):  # type: ignore[attr-defined]  # a live number passes for an int
        return NotImplemented  # torch has an error for it
    place: Any = index % n_rows
    return table.index_select(0, place.as_tensor().reshape(1).long()).squeeze(0)


def _scaled_sum(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """``torch.add(x, y, alpha=warmup)``: alpha may be no tensor."""
    if "alpha" not in kwargs or len(args) != 2:
        return NotImplemented
    rest = {name: value for name, value in kwargs.items() if name != "alpha"}
    return function(args[0], args[1] * kwargs["alpha"], **rest)


def _full(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """``torch.full(size, batch_idx)``, ``torch.full_like(x, batch_idx)`` and ``x.new_full(size, batch_idx)``."""
    *before, value = args if "fill_value" not in kwargs else (*args, kwargs["fill_value"])
    rest = {name: given for name, given in kwargs.items() if name != "fill_value"}
    if not hasattr(value, "as_tensor"):  # the size is the live number
        return NotImplemented
    if not (before and isinstance(before[0], torch.Tensor)):
        rest.setdefault("dtype", torch.get_default_dtype() if isinstance(value, float) else torch.int64)
    made = function(*before, fill_value=0, **rest)
    return value.as_tensor().to(made.dtype).expand(made.shape).clone()


def _tensor(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """``x.new_tensor(batch_idx)``."""
    tensor, value = args
    return value.as_tensor().to(kwargs.get("dtype") or tensor.dtype)


_SPECIAL: Sequence[Tuple[Any, str, _Special]] = (
    *((owner, name, _scaled_sum) for owner in (torch, torch.Tensor) for name in ("add", "sub")),
    *((torch.Tensor, name, _scaled_sum) for name in ("add_", "sub_")),
    (torch, "full", _full),
    (torch, "full_like", _full),
    (torch.Tensor, "new_full", _full),
    (torch.Tensor, "new_tensor", _tensor),
)
