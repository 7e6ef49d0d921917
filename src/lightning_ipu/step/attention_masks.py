"""Masks of nn.TransformerEncoder and nn.TransformerDecoder, which look whether theirs is the causal one, to choose a faster kernel.

An IPU's program is made before the mask has values; it takes the mask as it is, which gives the same numbers.
"""

import contextlib
import functools
import inspect
from typing import Any, Dict, Iterator

from torch import nn

# The argument that says so; left out, it means: look.
_HINTS: Dict[Any, str] = {nn.TransformerEncoder: "is_causal", nn.TransformerDecoder: "tgt_is_causal"}


@contextlib.contextmanager
def masks_unread() -> Iterator[None]:
    """Meanwhile transformers of torch.nn that are not told whether their mask is causal do not look."""
    forwards = {cls: cls.forward for cls in _HINTS}
    for cls, name in _HINTS.items():
        if name in inspect.signature(cls.forward).parameters:  # torch 2.0's decoder does not look
            cls.forward = _told(cls.forward, name)
    try:
        yield
    finally:
        for cls, forward in forwards.items():
            cls.forward = forward


def _told(forward: Any, name: str) -> Any:
    signature = inspect.signature(forward)

    @functools.wraps(forward)
    def told(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        if given.arguments.get(name) is None:
            given.arguments[name] = False
        return forward(*given.args, **given.kwargs)

    return told
