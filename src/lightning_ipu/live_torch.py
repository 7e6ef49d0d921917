"""Functions of torch that take a live number in another way than arithmetic does."""

from typing import Any, Callable, Dict, Mapping, Sequence

import torch

Convert = Callable[..., Any]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _item(function: Convert, args: Sequence[Any], kwargs: Mapping[str, Any], is_live: Callable[[Any], bool]) -> Any:
    """``table[batch_idx]``: the row that an input of the step selects."""
    table, index = args
    if not isinstance(table, torch.Tensor) or not table.dim() or not is_live(index) or not _is_whole(index):
        return NotImplemented
    n_rows = table.shape[0]
    if not index.holds(lambda value: -n_rows <= value < n_rows):
        return NotImplemented  # torch has an error for it
    return table.index_select(0, (index % n_rows).as_tensor().reshape(1).long()).squeeze(0)


def _scaled_sum(function: Convert, args: Sequence[Any], kwargs: Mapping[str, Any], is_live: Callable[[Any], bool]) -> Any:
    """``torch.add(x, y, alpha=warmup)``: alpha may be no tensor."""
    if not is_live(kwargs.get("alpha")) or len(args) != 2:
        return NotImplemented
    rest = {name: value for name, value in kwargs.items() if name != "alpha"}
    return function(args[0], args[1] * kwargs["alpha"], **rest)


def _filled_like(function: Convert, args: Sequence[Any], kwargs: Mapping[str, Any], is_live: Callable[[Any], bool]) -> Any:
    """``torch.full_like(x, batch_idx)``."""
    value: Any = args[1] if len(args) == 2 else kwargs.get("fill_value")
    if not is_live(value):
        return NotImplemented
    rest = {name: given for name, given in kwargs.items() if name != "fill_value"}
    made = torch.empty_like(args[0], **rest)
    return value.as_tensor().to(made.dtype).expand(made.shape).clone()


SPECIAL: Dict[str, Callable[..., Any]] = {
    "__getitem__": _item,
    "add": _scaled_sum,
    "add_": _scaled_sum,
    "sub": _scaled_sum,
    "sub_": _scaled_sum,
    "full_like": _filled_like,
}
