"""What is going on while a step is captured: the losses marked so far, and whether a capture runs at all."""

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Callable, ContextManager, Hashable, Iterator, List, Optional

import torch

from softipu.capture._torch_private import eagerly
from softipu.capture.known_values import KnownValues


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
        training: whether a backward pass follows.
        here: path of the module that runs now.
        with_own_weights: a context in which the module has its own parameters and buffers, not those of the capture.
        known: values of tensors that depend on constants alone.
        strided_groups: whether groups of channels are made of every n-th channel, not of neighbours.
    """

    losses: List[MarkedLoss] = field(default_factory=list)
    recent: List[Any] = field(default_factory=list)
    on_block: Optional[Callable[[Optional[Hashable]], None]] = None
    training: bool = False
    here: Callable[[], str] = str
    with_own_weights: Callable[[], ContextManager[None]] = nullcontext
    known: KnownValues = field(default_factory=KnownValues)
    strided_groups: bool = False


_running: List[CaptureContext] = []


def current() -> Optional[CaptureContext]:
    """The capture that runs now, or None."""
    return _running[-1] if _running else None


@contextmanager
def capturing(*, training: bool = False) -> Iterator[CaptureContext]:
    """Marks the time in which a module's forward is captured."""
    context = CaptureContext(training=training)
    _running.append(context)
    try:
        yield context
    finally:
        _running.pop()


@contextmanager
def paused() -> Iterator[None]:
    """PyTorch and the captured module as they are outside the capture that runs now."""
    context = _running[-1]
    hidden = _running[:]
    del _running[:]
    try:
        with eagerly(), context.with_own_weights():
            yield
    finally:
        _running[:] = hidden


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
