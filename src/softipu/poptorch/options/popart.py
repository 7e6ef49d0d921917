"""Options of the graph compiler that PopTorch hands on as they are (``options._Popart``)."""

import copy
from typing import Any, Dict, List, Mapping, Set, Union

from softipu.poptorch.options.option_set import FROZEN_MESSAGE

PopartValue = Union[int, float, str, List[str], Set[str], Mapping[str, Any]]


class _PopartOptions:
    """Values by PopART's names; ``options`` holds them.

    An unknown name is not noticed here but when a model is compiled (see ``session_options``).
    """

    def __init__(self) -> None:
        self._is_frozen = False
        self.options: Dict[str, Any] = {"instrumentWithHardwareCycleCounter": False, "rearrangeAnchorsOnHost": False}

    def set(self, key: str, value: PopartValue) -> "_PopartOptions":
        """Set one option.

        Raises:
            AttributeError: when frozen.
        """
        self.checkIsFrozen()
        self.options[key] = value
        return self

    def setEngineOptions(self, engine_options: Dict[str, str]) -> "_PopartOptions":
        """Set the options of the executable's engine, replacing those set before."""
        return self.set("engineOptions", engine_options)

    def setPatterns(self, patterns: Dict[str, bool], level: int = 2) -> "_PopartOptions":
        """Switch graph-rewrite patterns on or off by name, starting from a level.

        Raises:
            AssertionError: ``patterns`` is no dict or ``level`` no int.
        """
        assert isinstance(level, int), f"The pattern level must be an int, given {level!r}"
        assert isinstance(patterns, dict), f"Patterns must be a dict of pattern names and booleans, given {patterns!r}"
        self.set("patterns_level", level)
        return self.set("patterns", patterns)

    def _merge(self, key: str, **entries: Any) -> "_PopartOptions":
        """Add entries to an option that is a dict, keeping the others."""
        return self.set(key, {**self.options.get(key, {}), **entries})

    def _changed(self) -> Dict[str, Any]:
        """The options that were set to something else than PopTorch's own start values."""
        start = _PopartOptions().options
        return {key: value for key, value in self.options.items() if key not in start or start[key] != value}

    def checkIsFrozen(self) -> None:
        """Raise AttributeError when frozen."""
        if self._is_frozen:
            raise AttributeError(FROZEN_MESSAGE)

    def __deepcopy__(self, memo: Dict[int, Any]) -> "_PopartOptions":
        copied = type(self)()
        memo[id(self)] = copied
        copied.options = copy.deepcopy(self.options, memo)
        return copied

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.options.items())})"
