"""How many IPUs one replica of a model takes: what poptorch.BeginBlock and poptorch.Block in it say."""

import contextlib
from typing import Any, Iterator, List, Optional, Tuple

import torch
from torch import nn

# On a block: the ids that it was made with, before entering it gives it one.
_GIVEN = "_lightning_ipu_given"


def ipus_of(module: nn.Module) -> int:
    """IPUs of one replica, as far as ``BeginBlock`` marks on the modules tell: the highest ``ipu_id`` and one."""
    return max((number for number in _marks(module) if isinstance(number, int)), default=0) + 1


def has_blocks(module: nn.Module) -> bool:
    """Whether there is a ``BeginBlock`` mark on the module or within it."""
    return bool(_marks(module))


def _marks(module: nn.Module) -> List[Any]:
    marks = [mark for part in module.modules() for mark in (part, *part._forward_pre_hooks.values())]
    return [mark.__dict__["_ipu_id"] for mark in marks if "_ipu_id" in getattr(mark, "__dict__", {})]


class BlocksSeen(List[int]):
    """The ``ipu_id`` of every block that was entered or started, and which block was left last.

    Attributes:
        left: ids of the block that the step has left, so that what runs now is in none; None before that and within a block.
    """

    def __init__(self) -> None:
        super().__init__()
        self.left: Optional[Tuple[Optional[str], Optional[int]]] = None


@contextlib.contextmanager
def blocks_seen(poptorch: Any) -> Iterator[BlocksSeen]:
    """Collects the ``ipu_id`` of every ``poptorch.Block`` that is entered or started meanwhile."""
    seen = BlocksSeen()
    block = poptorch.Block
    make, enter, leave, start = block.__init__, block.__enter__, block.__exit__, block.start

    def began(ipu_id: Any) -> None:
        seen.left = None
        if isinstance(ipu_id, int):
            seen.append(ipu_id)

    def made(self: Any, user_id: Any = None, ipu_id: Any = None) -> None:
        make(self, user_id, ipu_id)
        self.__dict__[_GIVEN] = (user_id, ipu_id)

    def entered(self: Any) -> Any:
        # A block made before this began says it in attributes that are not documented, so they may be missing.
        given = self.__dict__.setdefault(_GIVEN, (getattr(self, "_user_id", None), getattr(self, "_ipu_id", None)))
        began(given[1])
        return enter(self)

    def left(self: Any, *error: Any) -> Any:
        seen.left = self.__dict__.get(_GIVEN, (None, None))
        return leave(self, *error)

    def started(user_id: Any = None, ipu_id: Any = None) -> Any:
        began(ipu_id)
        return start(user_id, ipu_id)

    left.seen = seen  # type: ignore[attr-defined]
    block.__init__, block.__enter__, block.__exit__, block.start = made, entered, left, staticmethod(started)
    try:
        yield seen
    finally:
        block.__init__, block.__enter__, block.__exit__, block.start = make, enter, leave, staticmethod(start)


def marked_loss(poptorch: Any, loss: torch.Tensor, share: float) -> torch.Tensor:
    """``loss`` marked as what is differentiated, ``share`` of it; in the block that the step left last, where it is in none."""
    seen = getattr(poptorch.Block.__exit__, "seen", None)
    with contextlib.nullcontext() if seen is None or seen.left is None else poptorch.Block(*seen.left):
        marked: torch.Tensor = poptorch.identity_loss(loss if share == 1.0 else loss * share, reduction="none")
    return marked
