"""What programs reach of PopTorch's private module for logs."""

from typing import Any

from softipu.poptorch.log import logger, setLogLevel
from softipu.poptorch.not_here import refusing

__all__ = ["logger", "setLogLevel", "setPopartLogLevel"]

_POPART_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERR", "OFF")


def setPopartLogLevel(level: Any) -> None:
    """Checks the level of PopART's log and leaves it at that: no PopART compiles here.

    Args:
        level: TRACE, DEBUG, INFO, WARN, ERR or OFF.

    Raises:
        ValueError: for any other value.
    """
    if level not in _POPART_LEVELS:
        raise ValueError(f"Level must be one of {', '.join(_POPART_LEVELS)}; given {level!r}.")


__getattr__ = refusing("_logging")
