"""``poptorch.profiling.Channel``: time spans for Graphcore's PVTI trace viewer, where its library is there."""

import contextlib
import importlib
import os
from typing import Any, ContextManager, Dict, Optional, TypeVar

from softipu.poptorch.log import logger

T = TypeVar("T")


def _pvti() -> Optional[Any]:
    """The library, if PVTI_OPTIONS asks for traces and it can be imported."""
    if "PVTI_OPTIONS" not in os.environ:
        return None
    try:
        return importlib.import_module("libpvti")
    except ImportError as error:
        logger.info("Tracepoints disabled (couldn't import libpvti: %s)", error)
        return None


class Channel:
    """A named channel of traces. Without the library, or without PVTI_OPTIONS, it does nothing."""

    _channels: Dict[str, Any] = {}

    def __init__(self, name: str) -> None:
        self._name = name
        self._library = _pvti()
        if self._library is not None and name not in self._channels:
            self._channels[name] = self._library.createTraceChannel(name)

    def instrument(self, obj: T, *methods: str) -> T:
        """Trace every call of these methods of an object, which is returned."""
        if self._library is not None:
            self._library.instrument(obj, methods, self._channels[self._name])
        return obj

    def tracepoint(self, name: str) -> ContextManager[Any]:
        """A context that traces the time spent in it."""
        if self._library is None:
            return contextlib.nullcontext()
        return self._library.Tracepoint(self._channels[self._name], f"{self._name}.{name}")
