"""Functions to be called around every compilation."""

from collections import OrderedDict
from typing import Callable

from torch.utils.hooks import RemovableHandle

Hook = Callable[[], None]
_before: "OrderedDict[int, Hook]" = OrderedDict()
_after: "OrderedDict[int, Hook]" = OrderedDict()


def registerPreCompileHook(hook: Hook) -> RemovableHandle:
    """Calls ``hook()`` before every compilation, in the order of registration. RuntimeError: not callable."""
    return _register(_before, hook)


def registerPostCompileHook(hook: Hook) -> RemovableHandle:
    """Calls ``hook()`` after every compilation, in the order of registration. RuntimeError: not callable."""
    return _register(_after, hook)


def _register(hooks: "OrderedDict[int, Hook]", hook: Hook) -> RemovableHandle:
    if not callable(hook):
        raise RuntimeError(f"A compile hook must be callable, given {hook!r}.")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def run_before() -> None:
    """Calls the hooks of before a compilation."""
    for hook in list(_before.values()):
        hook()


def run_after() -> None:
    """Calls the hooks of after a compilation."""
    for hook in list(_after.values()):
        hook()
