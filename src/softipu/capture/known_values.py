"""Values of tensors that depend on constants alone: the one kind whose values a step may ask for while it is captured."""

from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

import torch
from torch import nn

from softipu.capture._torch_private import FakeTensor, eagerly, version_of

# Functions and methods whose results are followed: without side effects, and not random.
_FOLLOWED: FrozenSet[str] = frozenset(
    """
    tensor as_tensor scalar_tensor arange linspace zeros ones full eye zeros_like ones_like full_like new_tensor new_zeros new_ones
    new_full add sub mul div true_divide floor_divide remainder neg abs pow sqrt exp log ceil floor round clamp maximum minimum
    __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__ __rfloordiv__ __mod__ __rmod__ __neg__
    __pow__ __rpow__ __and__ __or__ __xor__ __invert__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ eq ne lt le gt ge logical_and
    logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not isin isnan isfinite where sum prod mean amax amin any all
    argmax argmin cumsum diff flip roll tril triu cat stack unbind split chunk
    reshape view flatten squeeze unsqueeze expand repeat permute transpose t
    select narrow index_select gather __getitem__ to type long int float bool clone contiguous detach cpu
    """.split()
)
# Functions that ask for values: what they return, or its shape, depends on them.
_ASKING: FrozenSet[str] = frozenset(
    """
    item tolist numpy __bool__ __int__ __float__ __index__ is_nonzero equal allclose nonzero argwhere masked_select unique
    unique_consecutive bincount one_hot repeat_interleave __getitem__ max min __contains__
    """.split()
)
# Functions that write to an argument, besides those whose names end in one underscore.
_WRITING: FrozenSet[str] = frozenset(
    """
    __setitem__ __set__ __iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __imod__ __ipow__ __iand__ __ior__ __ixor__
    __ilshift__ __irshift__
    """.split()
)
_PLAIN = (int, float, bool, str, type(None), type(Ellipsis), torch.dtype, torch.device, torch.Size, torch.memory_format, torch.layout)
_MOST_ELEMENTS = 1 << 16


class _Known(NamedTuple):
    fake: torch.Tensor
    version: int
    value: torch.Tensor


class KnownValues:
    """What is known so far in one capture."""

    def __init__(self) -> None:
        self._known: Dict[int, _Known] = {}

    def of(self, tensor: torch.Tensor) -> Optional[torch.Tensor]:
        """The value of ``tensor`` if it is known and was not written since; a tensor from outside the step is its own."""
        if not isinstance(tensor, FakeTensor):
            is_constant = type(tensor) is torch.Tensor and not tensor.requires_grad and not tensor.is_meta
            return tensor if is_constant and not isinstance(tensor, nn.Parameter) else None
        known = self._known.get(id(tensor))
        return known.value if known is not None and known.version == _edits(tensor) else None

    def answer(self, func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[bool, Any]:
        """(True, what ``func`` returns) if it asks for values that are all known, else (False, None)."""
        if _name(func) not in _ASKING or not _has_tensor((args, kwargs)):
            return False, None
        values = self._values((args, kwargs))
        if values is None:
            return False, None
        with eagerly():
            return True, func(*values[0][0], **values[0][1])

    def follow(self, func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any) -> None:
        """Notes the value of ``result`` of a call if the arguments' are known."""
        name = _name(func)
        if _writes(name) or kwargs.get("out") is not None:
            # PyTorch does not count the edits of tensors made in inference mode, and views share them.
            self._known = {key: known for key, known in self._known.items() if not known.fake.is_inference()}
            return
        if name not in _FOLLOWED:
            return
        results = result if type(result) in (list, tuple) else (result,)
        if any(not isinstance(r, FakeTensor) or r.requires_grad or r.numel() > _MOST_ELEMENTS for r in results):
            return
        values = self._values((args, kwargs))
        if values is None:
            return
        with eagerly():
            found = func(*values[0][0], **values[0][1])
            found = [v.clone() for v in (found if type(found) in (list, tuple) else (found,))]
        for one, value in zip(results, found):
            self._known[id(one)] = _Known(one, _edits(one), value)

    def numbers_of(self, tensor: torch.Tensor) -> Any:
        """The value of ``tensor`` as a number or a list of them; None if it is not known."""
        value = self.of(tensor)
        if value is None:
            return None
        with eagerly():
            return value.tolist()

    def with_known_masks(self, index: Any) -> Any:
        """An index with every mask that is known replaced by the places that it chooses."""
        places: List[Any] = []
        for part in index if isinstance(index, tuple) else (index,):
            value = self.of(part) if isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8) else None
            if value is None:
                places.append(part)
            else:
                with eagerly():
                    places.extend(value.nonzero(as_tuple=True))
        return tuple(places)

    def _values(self, item: Any) -> Optional[Tuple[Any]]:
        """``item`` with every tensor replaced by its value, in a tuple; None if one is not known or is no plain value."""
        if isinstance(item, torch.Tensor):
            value = self.of(item)
            return None if value is None or value.numel() > _MOST_ELEMENTS else (value,)
        if type(item) in (list, tuple):
            values = [self._values(i) for i in item]
            return None if any(v is None for v in values) else (type(item)(v[0] for v in values if v is not None),)
        if type(item) is dict:
            found = {k: self._values(v) for k, v in item.items()}
            return None if any(v is None for v in found.values()) else ({k: v[0] for k, v in found.items() if v is not None},)
        if type(item) is slice:
            ends = self._values((item.start, item.stop, item.step))
            return None if ends is None else (slice(*ends[0]),)
        return (item,) if type(item) in _PLAIN else None


def _name(func: Callable[..., Any]) -> str:
    """What a function is called; an overload (``select.int``), by which PyTorch 2.0 indexes a plain tensor, as its op."""
    return str(getattr(func, "__name__", "")).split(".")[0]


def _has_tensor(item: Any) -> bool:
    if isinstance(item, (list, tuple)):
        return any(_has_tensor(i) for i in item)
    if isinstance(item, dict):
        return any(_has_tensor(i) for i in item.values())
    return isinstance(item, torch.Tensor)


def _edits(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else version_of(tensor)


def _writes(name: str) -> bool:
    return name in _WRITING or (name.endswith("_") and not name.endswith("__"))
