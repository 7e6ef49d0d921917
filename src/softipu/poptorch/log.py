"""PopTorch's logger: ``poptorch.logger``, ``setLogLevel`` and the variables POPTORCH_LOG_LEVEL and POPTORCH_LOG_DEST.

A line looks like ``[11:22:33.044] [poptorch::python] [warning] text`` and goes to the standard error stream unless told otherwise.
"""

import logging
import os
import sys
from typing import Any, Mapping, TextIO, Union

LEVELS = {
    "TRACE": logging.DEBUG,
    "TRACE_ALL": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "DEBUG_IR": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERR": logging.ERROR,
    "OFF": logging.CRITICAL + 1,
}
"""PopTorch's level names and the thresholds of Python's logging they stand for."""

NUMBERED_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERR")
"""The levels by their old numbers, 0 to 4."""

logger = logging.getLogger("poptorch::python")


class _Line(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("[%(asctime)s.%(msecs)03d] [%(name)s] [%(lowered)s] %(message)s", datefmt="%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        record.lowered = record.levelname.lower()
        return super().format(record)


class _StandardStream(logging.StreamHandler):
    """Writes to what ``sys.stdout`` or ``sys.stderr`` is at the time of the line, so a redirected stream is followed."""

    def __init__(self, name: str) -> None:
        logging.Handler.__init__(self)
        self._stream_name = name

    @property
    def stream(self) -> TextIO:
        return getattr(sys, self._stream_name)


class _File(logging.FileHandler):
    """Writes to the file of POPTORCH_LOG_DEST."""


def setLogLevel(level: Union[str, int]) -> None:
    """Show lines of this level and above.

    Args:
        level: TRACE, TRACE_ALL, DEBUG, DEBUG_IR, INFO, WARN, ERR or OFF, or one of the old numbers 0 (TRACE) to 4 (ERR).

    Raises:
        ValueError: for any other value.
    """
    name: Any = level
    if isinstance(level, int) and not isinstance(level, bool):
        if not 0 <= level < len(NUMBERED_LEVELS):
            raise ValueError(f"Invalid log level integer: {level}. Valid values are the numbers 0 (TRACE) to 4 (ERR), or names.")
        name = NUMBERED_LEVELS[level]
    if name not in LEVELS:
        *most, last = sorted(LEVELS)
        raise ValueError(f"Unknown log level: {level}. Valid values are {', '.join(most)} and {last}, or the numbers 0 (TRACE) to 4 (ERR).")
    logger.setLevel(LEVELS[name])


def configure(environment: Mapping[str, str]) -> None:
    """Set threshold and destination from POPTORCH_LOG_LEVEL and POPTORCH_LOG_DEST.

    Raises:
        ValueError: when POPTORCH_LOG_LEVEL holds no level.
    """
    level = environment.get("POPTORCH_LOG_LEVEL", "WARN")
    try:
        setLogLevel(int(level) if level.isdigit() else level)
    except ValueError as error:
        raise ValueError(f"Environment variable POPTORCH_LOG_LEVEL: {error}") from None
    destination = environment.get("POPTORCH_LOG_DEST", "stderr")
    handler: Union[_StandardStream, _File]
    if destination in ("stderr", "stdout"):
        handler = _StandardStream(destination)
    else:
        handler = _File(destination, delay=True)
    handler.setFormatter(_Line())
    for old in list(logger.handlers):
        if isinstance(old, (_StandardStream, _File)):  # those of programs stay
            logger.removeHandler(old)
            old.close()
    logger.addHandler(handler)


configure(os.environ)
