"""Libraries look at values for the sake of advice or of a shortcut, unless they are told that a program is being traced: transformers does
before it warns of padding without a mask. While a step is captured they are told so.
"""

import contextlib
import sys
from typing import Iterator

import torch


@contextlib.contextmanager
def said_to_trace() -> Iterator[None]:
    """Meanwhile ``torch.jit.is_tracing()`` is true, but for torch's own code, which asks for TorchScript's sake."""
    is_tracing = torch.jit.is_tracing

    def is_captured() -> bool:
        asks = sys._getframe(1).f_globals.get("__name__", "")
        return bool(is_tracing()) if asks.split(".")[0] == "torch" else True

    torch.jit.is_tracing = is_captured
    try:
        yield
    finally:
        torch.jit.is_tracing = is_tracing
