"""Which block of a model the operations that run now belong to, while the model is captured.

    with recording() as recorder:          # around one capture
        module(x)                          # Block, BeginBlock ... tell the recorder
        current_block()                    # asked for every captured operation

Outside ``recording`` blocks do nothing.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Dict, Iterator, List, Optional

from softipu.capture import enter_block
from softipu.errors import Error


@dataclass(frozen=True)
class BlockId:
    """A block: the user's (or an automatic) name, and its IPU where it was given one."""

    user_id: str
    ipu_id: Optional[int] = None


class BlockRecorder:
    """The blocks of one capture, in the order that they run.

    Attributes:
        blocks: every begin of a block, in order.
        current: the block that operations belong to now; None before the first block and after a ``with`` block has ended.
        ended: whether a ``with`` block has ended and no other has begun since.
    """

    def __init__(self) -> None:
        self.blocks: List[BlockId] = []
        self.current: Optional[BlockId] = None
        self.ended = False
        self._enclosing: List[Optional[BlockId]] = []
        self._n_automatic = 0
        self._automatic: Dict[int, str] = {}

    def begin(self, user_id: Optional[str], ipu_id: Optional[int], *, owner: Optional[object] = None) -> None:
        """Operations from here on belong to a block; without a user id it gets the next number.

        Args:
            owner: what begins the block; one that begins it again keeps its number.
        """
        if user_id is None:
            user_id = self._automatic.get(id(owner)) if owner is not None else None
            if user_id is None:
                user_id = str(self._n_automatic)
                self._n_automatic += 1
                if owner is not None:
                    self._automatic[id(owner)] = user_id
        self.current = BlockId(user_id, ipu_id)
        self.ended = False
        self.blocks.append(self.current)
        enter_block(self.current)

    def enter(self, user_id: Optional[str], ipu_id: Optional[int]) -> None:
        """A ``with`` block begins."""
        self._enclosing.append(self.current if self._enclosing else None)
        self.begin(user_id, ipu_id)

    def leave(self) -> None:
        """The innermost ``with`` block ends: back to the one around it, or to none."""
        self.current = self._enclosing.pop()
        self.ended = self.current is None
        enter_block(self.current)

    def restart_numbers(self) -> None:
        """Automatic user ids start again at 0."""
        self._n_automatic = 0


_recorders: List[BlockRecorder] = []


@contextmanager
def recording() -> Iterator[BlockRecorder]:
    """Let blocks tell a new recorder while this context lasts."""
    recorder = BlockRecorder()
    _recorders.append(recorder)
    try:
        yield recorder
    finally:
        _recorders.pop()


def recorder() -> Optional[BlockRecorder]:
    """The recorder of the running capture, or None."""
    return _recorders[-1] if _recorders else None


def current_block() -> Optional[BlockId]:
    """The block that operations belong to now, or None."""
    return _recorders[-1].current if _recorders else None


def require_block() -> Optional[BlockId]:
    """As ``current_block``, for operations that do real work.

    Raises:
        Error: a ``with Block(...)`` has ended and no other block has begun.
    """
    running = recorder()
    if running is not None and running.ended:
        last = running.blocks[-1].user_id
        raise Error(
            f"No active Block, all the ops must belong to a Block: an operation runs after `with poptorch.Block` '{last}' has ended. "
            "Move it into a block, or begin the blocks with poptorch.Block.start or poptorch.BeginBlock, which last until the next one."
        )
    return current_block()
