"""What is going on while a step is captured: the losses marked so far, and whether a capture runs at all."""

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Callable, Hashable, Iterator, List, Optional

import torch


@dataclass
class MarkedLoss:
    """A value that may be what the backward pass starts from; ``explicit`` when identity_loss marked it."""

    value: torch.Tensor
    explicit: bool


@dataclass
class CaptureContext:
    """State of one running capture.

    Attributes:
        losses: values marked as losses, in order.
        recent: results of calls since the last block began.
        on_block: told when another block begins.
    """

    losses: List[MarkedLoss] = field(default_factory=list)
    recent: List[Any] = field(default_factory=list)
    on_block: Optional[Callable[[Optional[Hashable]], None]] = None


_running: List[CaptureContext] = []


def current() -> Optional[CaptureContext]:
    """The capture that runs now, or None."""
    return _running[-1] if _running else None


@contextmanager
def capturing() -> Iterator[CaptureContext]:
    """Marks the time in which a module's forward is captured."""
    context = CaptureContext()
    _running.append(context)
    try:
        yield context
    finally:
        _running.pop()


def mark_loss(value: torch.Tensor, *, explicit: bool) -> None:
    """Tells a running capture that ``value`` is a loss; does nothing outside a capture."""
    context = current()
    if context is not None:
        context.losses.append(MarkedLoss(value, explicit))


def enter_block(block: Optional[Hashable]) -> None:
    """Tells a running capture that ops from here on belong to ``block`` (None: to no block)."""
    context = current()
    if context is not None and context.on_block is not None:
        context.on_block(block)
