"""How many IPUs one replica of a model takes: what poptorch.BeginBlock and poptorch.Block in it say."""

import contextlib
from typing import Any, Iterator, List

from torch import nn


def ipus_of(module: nn.Module) -> int:
    """IPUs of one replica, as far as ``BeginBlock`` marks on the modules tell: the highest ``ipu_id`` and one."""
    marks = [mark for part in module.modules() for mark in (part, *part._forward_pre_hooks.values())]
    numbers = [mark.__dict__["_ipu_id"] for mark in marks if isinstance(getattr(mark, "__dict__", {}).get("_ipu_id"), int)]
    return max(numbers, default=0) + 1


@contextlib.contextmanager
def blocks_seen(poptorch: Any) -> Iterator[List[int]]:
    """Collects the ``ipu_id`` of every ``poptorch.Block`` that is entered or started meanwhile."""
    seen: List[int] = []
    block = poptorch.Block
    enter, start = block.__enter__, block.start

    def entered(self: Any) -> Any:
        number = getattr(self, "_ipu_id", None)
        if isinstance(number, int):
            seen.append(number)
        return enter(self)

    def started(user_id: Any = None, ipu_id: Any = None) -> Any:
        if isinstance(ipu_id, int):
            seen.append(ipu_id)
        return start(user_id, ipu_id)

    block.__enter__, block.start = entered, staticmethod(started)
    try:
        yield seen
    finally:
        block.__enter__, block.start = enter, staticmethod(start)
