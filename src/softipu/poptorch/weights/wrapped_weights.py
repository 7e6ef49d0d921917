"""Parameters and buffers of a module in training: reading one on the host first brings it up to date from the device.

PopTorch copies weights to the host when somebody reads them, and only then. Every use of a tensor through PyTorch's API
passes __torch_function__, so that is where the copy happens. The tensor objects stay the same; only their class changes
while the module is wrapped.
"""

import copy
import sys
from types import FrameType
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Protocol, Sequence, Set, Tuple, Type

import torch

from softipu.capture._torch_private import disable_torch_function
from softipu.capture.user_code import is_user_file
from softipu.poptorch.log import logger

_OWNERS = "_softipu_owners"

# Questions that no value is needed for.
_WITHOUT_VALUES = frozenset(
    [
        getattr(torch.Tensor, name).__get__
        for name in ("shape", "dtype", "device", "layout", "requires_grad", "is_leaf", "grad", "grad_fn", "ndim")
    ]
    + [getattr(torch.Tensor, name).__set__ for name in ("requires_grad", "grad")]
    + [
        getattr(torch.Tensor, name)
        for name in ("size", "dim", "numel", "nelement", "stride", "is_contiguous", "is_floating_point", "requires_grad_")
    ]
    + [torch.Tensor.__len__, torch.is_floating_point, torch.numel]
)

_GRADIENT = torch.Tensor.grad.__get__  # type: ignore[union-attr]  # of the class it is a descriptor
_SET_GRADIENT = torch.Tensor.grad.__set__  # type: ignore[union-attr]
_HAS_OWN_GRADIENT = "_softipu_has_own_gradient"
_told: Set[Tuple[str, int]] = set()


class Owner(Protocol):
    """An executor that may hold newer weights than the host."""

    def copyWeightsToHostIfNeeded(self) -> bool: ...

    def _group_replicas(self, parameter: torch.Tensor, comm_group_type: Any, shards: int, variable_retrieval_mode: Any) -> None: ...


class _Synchronised:
    """What wrapped parameters and buffers have in common."""

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Iterable[Type[Any]], args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        if func == _GRADIENT:
            if not args[0].__dict__.get(_HAS_OWN_GRADIENT):
                _tell_about_gradients(sys._getframe(1))
        elif func == _SET_GRADIENT:
            # Whoever gives a parameter a gradient on the host knows what it is.
            args[0].__dict__[_HAS_OWN_GRADIENT] = args[1] is not None
        elif func not in _WITHOUT_VALUES:
            for tensor in _wrapped_in(args, kwargs):
                bring_up_to_date(tensor)
        with disable_torch_function():
            return func(*args, **(kwargs or {}))

    def __deepcopy__(self, memo: Dict[int, Any]) -> Any:
        known = memo.get(id(self))
        if known is None:
            known = memo[id(self)] = copy.deepcopy(_plain_twin(self), memo)
        return known

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return repr(_plain_twin(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _plain_twin(self).__reduce_ex__(protocol)


class WrappedParameter(_Synchronised, torch.nn.Parameter):  # type: ignore[misc]  # a representation takes no arguments here
    """A parameter whose newest value may be on a device."""

    def replicaGrouping(self, comm_group_type: Any, shards: int, variable_retrieval_mode: Any) -> None:
        """Declares, before compiling, that the first dimension holds one value for each group of replicas.

        Args:
            comm_group_type: a poptorch.CommGroupType.
            shards: replicas of a group.
            variable_retrieval_mode: a poptorch.VariableRetrievalMode: what the host reads.

        Raises:
            ValueError: wrong types, or a number of shards that does not divide the replicas.
            Error: a scalar, a first dimension that is not the number of groups, or a model that is compiled already.
        """
        for owner in owners_of(self):
            owner._group_replicas(self, comm_group_type, shards, variable_retrieval_mode)


class WrappedBuffer(_Synchronised, torch.Tensor):  # type: ignore[misc]
    """A buffer whose newest value may be on a device."""


_WRAPPED: Dict[type, type] = {torch.nn.Parameter: WrappedParameter, torch.Tensor: WrappedBuffer}
_PLAIN = {wrapped: plain for plain, wrapped in _WRAPPED.items()}


def wrap(tensors: Iterable[torch.Tensor], owner: Owner) -> List[torch.Tensor]:
    """Makes reads of ``tensors`` ask ``owner`` first; tensors of other classes than Parameter and Tensor stay as they are.

    Modules that share parameters may be in training each on its own: then each owner is asked.
    The tensors keep the owner alive: it has their newest values even if the program dropped it.
    """
    done = []
    for tensor in tensors:
        wrapped = _WRAPPED.get(type(tensor))
        if wrapped is not None:
            tensor.__class__ = wrapped
            tensor.__dict__[_OWNERS] = ()
        if type(tensor) in _PLAIN:
            tensor.__dict__[_OWNERS] = (*tensor.__dict__[_OWNERS], owner)
            done.append(tensor)
    return done


def unwrap(tensors: Iterable[torch.Tensor], owner: Owner) -> None:
    """Reads of ``tensors`` do not ask ``owner`` any more; those without an owner get their own class back."""
    for tensor in tensors:
        plain = _PLAIN.get(type(tensor))
        if plain is not None:
            tensor.__dict__.pop(_HAS_OWN_GRADIENT, None)
            remaining = tuple(o for o in tensor.__dict__.pop(_OWNERS) if o is not owner)
            if remaining:
                tensor.__dict__[_OWNERS] = remaining
            else:
                tensor.__class__ = plain


def owners_of(tensor: torch.Tensor) -> Tuple[Owner, ...]:
    """The executors that a wrapped tensor belongs to."""
    return tensor.__dict__.get(_OWNERS, ()) if type(tensor) in _PLAIN else ()


def bring_up_to_date(tensor: torch.Tensor) -> None:
    """Copies an owner's weights to the host if they are newer."""
    for owner in owners_of(tensor):
        owner.copyWeightsToHostIfNeeded()


def _tell_about_gradients(frame: FrameType) -> None:
    """Once for each line of the user's that reads a gradient of a wrapped parameter."""
    line = (frame.f_code.co_filename, frame.f_lineno)
    if line not in _told and is_user_file(line[0]):
        _told.add(line)
        logger.warning(
            "%s:%d reads the gradient of a parameter that trains on the IPU: it is not on the host (None, or an old one). Clip by the "
            "optimizer's max_grad_norm; look at gradients through Options.anchorTensor and getAnchoredTensor.",
            *line,
        )


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """A plain tensor of the same memory, without looking at the device."""
    with disable_torch_function(), torch.no_grad():
        return tensor.detach()


def resize(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Gives a tensor new memory of another shape; returns a plain tensor of it."""
    with disable_torch_function(), torch.no_grad():
        tensor.data = torch.empty(tuple(shape), dtype=tensor.dtype)
        return tensor.detach()


def _plain_twin(tensor: Any) -> torch.Tensor:
    bring_up_to_date(tensor)
    twin = plain(tensor)
    if isinstance(tensor, torch.nn.Parameter):
        with disable_torch_function():
            twin = torch.nn.Parameter(twin, requires_grad=tensor.requires_grad)
    return twin


def _wrapped_in(*values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, _Synchronised):
            yield value  # type: ignore[misc]
        elif isinstance(value, (list, tuple)):
            yield from _wrapped_in(*value)
        elif isinstance(value, dict):
            yield from _wrapped_in(*value.values())
