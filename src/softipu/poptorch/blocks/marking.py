"""Marking blocks of a model: Block, BeginBlock, BlockFunction, removeBlocks.

Blocks do nothing to numbers. While a model is captured they say where it may be split over IPUs (``scope``, ``placement``).
"""

import functools
from typing import Any, Callable, Optional, Tuple, TypeVar, Union

from torch import nn

from softipu.errors import Error
from softipu.poptorch.blocks import scope

F = TypeVar("F", bound=Callable[..., Any])


def _checked(user_id: Union[str, int, None], ipu_id: Optional[int]) -> None:
    assert user_id is None or (isinstance(user_id, (str, int)) and not isinstance(user_id, bool)), (
        f"A block's user_id is a string (or None for an automatic number), given {user_id!r}"
    )
    assert ipu_id is None or (isinstance(ipu_id, int) and not isinstance(ipu_id, bool) and ipu_id >= 0), (
        f"A block's ipu_id is the number of an IPU of the model, 0 or more (or None), given {ipu_id!r}"
    )


def _name(user_id: Union[str, int, None]) -> Optional[str]:
    return None if user_id is None else str(user_id)


class Block:
    """A ``with`` scope whose operations belong to one block.

    After it ends operations belong to no block, which is an error if any does real work.

    Args:
        user_id: name of the block, for execution strategies; the next number if None.
        ipu_id: IPU that runs it.

    Raises:
        AssertionError: wrong types, or a negative ipu_id.
    """

    def __init__(self, user_id: Optional[str] = None, ipu_id: Optional[int] = None) -> None:
        _checked(user_id, ipu_id)
        self._user_id = user_id
        self._ipu_id = ipu_id

    @staticmethod
    def useAutoId() -> None:
        """Number the blocks without a user id from 0 again; call it first in ``forward``."""
        recorder = scope.recorder()
        if recorder is not None:
            recorder.restart_numbers()

    @staticmethod
    def start(user_id: Optional[str] = None, ipu_id: Optional[int] = None) -> None:
        """Begin a block that lasts until the next one begins. AssertionError: wrong types."""
        _checked(user_id, ipu_id)
        recorder = scope.recorder()
        if recorder is not None:
            recorder.begin(_name(user_id), ipu_id)

    def __enter__(self) -> None:
        recorder = scope.recorder()
        if recorder is not None:
            recorder.enter(_name(self._user_id), self._ipu_id)

    def __exit__(self, *raised: Any) -> None:
        recorder = scope.recorder()
        if recorder is not None:
            recorder.leave()

    def __repr__(self) -> str:
        return f"Block(user_id={self._user_id}, ipu_id={self._ipu_id})"


class _BlockHook:
    """Forward pre-hook of a module that begins a block."""

    def __init__(self, user_id: Union[str, int, None], ipu_id: Optional[int]) -> None:
        self._user_id = user_id
        self._ipu_id = ipu_id

    def __call__(self, module: nn.Module, args: Any) -> None:
        recorder = scope.recorder()
        if recorder is not None:
            recorder.begin(_name(self._user_id), self._ipu_id, owner=self)

    @property
    def ids(self) -> Tuple[Union[str, int, None], Optional[int]]:
        """User id and IPU of the block."""
        return self._user_id, self._ipu_id

    def __repr__(self) -> str:
        return f"BeginBlock(user_id={self._user_id}, ipu_id={self._ipu_id})"


def block_of(module: nn.Module) -> Optional[_BlockHook]:
    """What ``BeginBlock`` put on a module, or None."""
    return next((hook for hook in module._forward_pre_hooks.values() if isinstance(hook, _BlockHook)), None)


class LegacyBeginBlockFn(nn.Module):
    """A function that begins a block whenever it is called."""

    def __init__(self, layer_to_call: Callable[..., Any], user_id: Optional[str] = None, ipu_id: Optional[int] = None) -> None:
        super().__init__()
        self._layer_to_call = layer_to_call
        self._user_id = user_id
        self._ipu_id = ipu_id

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        recorder = scope.recorder()
        if recorder is not None:
            recorder.begin(_name(self._user_id), self._ipu_id, owner=self)
        return self._layer_to_call(*args, **kwargs)


def BeginBlock(layer_to_call: Any, user_id: Optional[str] = None, ipu_id: Optional[int] = None) -> Any:
    """Begin a block whenever this module (or function) runs; it lasts until the next block begins.

    Args:
        layer_to_call: changed in place when it is a module.
        user_id: name of the block, for execution strategies; the next number if None.
        ipu_id: IPU that runs it.

    Returns:
        The same module, or a callable in place of the function.

    Raises:
        Error: the module begins a block already, or is neither a module nor a function.
        AssertionError: wrong types of the ids.
    """
    _checked(user_id, ipu_id)
    if not isinstance(layer_to_call, nn.Module):
        if callable(layer_to_call):
            return LegacyBeginBlockFn(layer_to_call, user_id, ipu_id)
        raise Error(f"module is not an instance of torch.nn.Module or function: BeginBlock was given {layer_to_call!r}.")
    present = block_of(layer_to_call)
    if present is not None:
        raise Error(
            f"module has already been assigned to a block: {type(layer_to_call).__name__} has {present!r}. "
            "Call poptorch.removeBlocks(module) before a new BeginBlock."
        )
    layer_to_call.register_forward_pre_hook(_BlockHook(user_id, ipu_id))
    return layer_to_call


def BlockFunction(user_id: Optional[str] = None, ipu_id: Optional[int] = None) -> Callable[[F], F]:
    """Decorator: the function's body is a ``Block``. AssertionError: wrong types of the ids."""
    _checked(user_id, ipu_id)

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def in_block(*args: Any, **kwargs: Any) -> Any:
            with Block(user_id, ipu_id):
                return function(*args, **kwargs)

        return in_block  # type: ignore[return-value]

    return decorate


def module_repr(module: nn.Module) -> str:
    """``repr`` of a module with ``BeginBlock(user_id=..., ipu_id=...)`` in front of each submodule that begins a block."""
    begins = block_of(module)
    prefix = f"{begins!r} " if begins is not None else ""
    if not any(block_of(part) is not None for part in module.modules() if part is not module):
        return prefix + repr(module)
    lines = [f"({name}): {module_repr(child)}" for name, child in module._modules.items() if child is not None]
    extra = module.extra_repr()
    inner = "\n".join([extra] * bool(extra) + lines).replace("\n", "\n  ")
    return f"{prefix}{module._get_name()}(\n  {inner}\n)"


def removeBlocks(module: nn.Module) -> None:
    """Take every ``BeginBlock`` of a module and its submodules off. AssertionError: no module."""
    assert isinstance(module, nn.Module), f"removeBlocks needs a torch.nn.Module, given {module!r}"
    for part in module.modules():
        hooks = part._forward_pre_hooks
        for key in [key for key, hook in hooks.items() if isinstance(hook, _BlockHook)]:
            del hooks[key]
