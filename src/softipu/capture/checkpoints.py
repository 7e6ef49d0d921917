"""torch.utils.checkpoint inside a captured step: the function runs once, and its values are kept for the backward pass.

The numbers are the same. What is kept and what is computed again is decided for the whole step on an IPU, by its options and by
poptorch.recomputationCheckpoint; PyTorch's way, a second forward inside autograd, has no place in one static graph.
"""

import logging
from contextlib import contextmanager
from typing import Any, Callable, Iterator

import torch.utils.checkpoint

from softipu.capture.user_code import calling_line

_log = logging.getLogger("softipu")
# What torch.utils.checkpoint.checkpoint looks up in its module when it is called. The first is of all versions, the second of 2.0,
# the third of those since 2.1. Checked on 2.0.1 and 2.13.
_REENTRANT = "CheckpointFunction"
_ONE_CALL = "_checkpoint_without_reentrant"
_BEFORE_AND_AFTER = "_checkpoint_without_reentrant_generator"


@contextmanager
def without_checkpoints() -> Iterator[None]:
    """Functions given to torch.utils.checkpoint are just called in here; one warning says so, with the line of the first."""
    told = False

    def tell() -> None:
        nonlocal told
        if not told:
            told = True
            line = calling_line()
            _log.warning(
                "softipu: torch.utils.checkpoint computes nothing again on an IPU%s: numbers are the same, memory is not saved. There use "
                'poptorch.recomputationCheckpoint(tensor) with options._Popart.set("autoRecomputation", 3).',
                f" ({line})" if line else "",
            )

    class Reentrant:
        @staticmethod
        def apply(function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
            tell()
            return function(*args)

    def one_call(function: Callable[..., Any], preserve_rng_state: bool = True, *args: Any, **kwargs: Any) -> Any:
        tell()
        return function(*args, **kwargs)

    def before_and_after(*args: Any, **kwargs: Any) -> Iterator[None]:
        tell()
        yield

    module: Any = torch.utils.checkpoint
    substitutes = {_REENTRANT: Reentrant, _ONE_CALL: one_call, _BEFORE_AND_AFTER: before_and_after}
    before = {name: getattr(module, name) for name in substitutes if hasattr(module, name)}
    for name in before:
        setattr(module, name, substitutes[name])
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)
