"""``destroy`` on a module that is wrapped for training: what programs call that kept the module and not the executor."""

import weakref
from typing import Any, Callable, Tuple

from torch import nn

NAME = "destroy"


class ModuleDestroy:
    """Calls ``destroy`` of the executor that wraps a module.

    An attribute of the module while it is wrapped. Copies and pickles of the module are not wrapped: there it is None.

    Args:
        destroy: the executor's bound method; not kept alive.
    """

    def __init__(self, destroy: Callable[[], None]) -> None:
        self._destroy = weakref.WeakMethod(destroy)

    def __call__(self) -> None:
        """Frees the program and unwraps the module."""
        destroy = self._destroy()
        if destroy is not None:
            destroy()

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(None), ()


def give(module: nn.Module, destroy: Callable[[], None]) -> None:
    """Gives a module the attribute, unless it has one of its own."""
    if getattr(module, NAME, None) is None:
        vars(module)[NAME] = ModuleDestroy(destroy)


def take(module: nn.Module) -> None:
    """Takes it away again."""
    if isinstance(vars(module).get(NAME), ModuleDestroy):
        del vars(module)[NAME]
