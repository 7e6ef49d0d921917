"""A set of named options: readable as attributes, checked when written, frozen after use."""

import copy
from typing import Any, Dict, FrozenSet, Optional

FROZEN_MESSAGE = (
    "Can't modify frozen Options: they were already given to a model or a DataLoader, which have taken their copy. "
    "Change the options before that, or change a copy (options.clone()) and make a new wrapper with it."
)


class OptionSet:
    """Values by name, each with a default.

    Only names with a default can be written (``createOrSet`` adds others), only with values of the default's type.

    Raises:
        AttributeError: reading or assigning an unknown name; writing when frozen.
        AssertionError: a value of the wrong type.
    """

    _nullable: FrozenSet[str] = frozenset()
    """Names that also take None."""

    def __init__(self, **defaults: Any) -> None:
        self._is_frozen = False
        self._defaults = copy.deepcopy(defaults)
        # The last one: from here on new private attributes are refused, so that a misspelt one is noticed.
        self._values: Dict[str, Any] = defaults

    def set(self, **values: Any) -> None:
        """Write values of known names."""
        self.checkIsFrozen()
        for name, value in values.items():
            assert self.exists(name), f"Invalid option {name}, valid options are {sorted(self._values)}"
            expected = type(self._defaults.get(name, self._values[name]))
            assert isinstance(value, expected) or (value is None and name in self._nullable), (
                f"Unexpected type {type(value)} for option {name} (given {value!r}). Expected {expected}"
            )
            self._values[name] = value

    def createOrSet(self, **values: Any) -> None:
        """Write values; names without a default are added."""
        self.checkIsFrozen()
        for name, value in values.items():
            if self.exists(name):
                self.set(**{name: value})
            else:
                self._values[name] = value

    def exists(self, option: str) -> bool:
        """Whether a value of this name can be read."""
        return option in self._values

    def deleteIfExists(self, option: str) -> None:
        """Forget a value."""
        self.checkIsFrozen()
        self._values.pop(option, None)

    def checkIsFrozen(self, option: Optional[str] = None) -> None:
        """Raise AttributeError when the set is frozen and ``option`` is not the mark itself."""
        if option != "_is_frozen" and self.__dict__.get("_is_frozen", False):
            raise AttributeError(FROZEN_MESSAGE)

    def _freeze(self) -> None:
        self._mark_frozen(True)

    def _unfreeze(self) -> None:
        self._mark_frozen(False)

    def _mark_frozen(self, frozen: bool) -> None:
        self._is_frozen = frozen
        for part in self.__dict__.values():
            if "_is_frozen" in getattr(part, "__dict__", {}):
                part._is_frozen = frozen

    def toDict(self) -> Dict[str, Any]:
        """All values by name."""
        return self.update({})

    def update(self, other: Dict[str, Any]) -> Dict[str, Any]:
        """Add all values to ``other``, which may not have any of the names, and return it."""
        both = set(self._values).intersection(other)
        assert not both, f"Can't merge dictionaries, they have some keys in common: {sorted(both)}"
        other.update(self._values)
        return other

    def _changed(self) -> Dict[str, Any]:
        """The values that differ from their default, or have none."""
        return {name: value for name, value in self._values.items() if name not in self._defaults or self._defaults[name] != value}

    def __setattr__(self, option: str, value: Any) -> None:
        self.checkIsFrozen(option)
        if option.startswith("_"):
            if "_values" in self.__dict__ and option not in self.__dict__ and not hasattr(type(self), option):
                raise AttributeError(f"Invalid private attribute {option}. Valid attributes: {sorted(self.__dict__)}")
            super().__setattr__(option, value)
        elif self.exists(option):
            self.set(**{option: value})
        else:
            raise AttributeError(f"Invalid attribute {option}. Valid options are {sorted(self._values)}")

    def __getattr__(self, option: str) -> Any:
        # Reached for names that are no normal attribute; copying and unpickling ask before there are any values.
        values = self.__dict__.get("_values", {})
        if option not in values:
            raise AttributeError(f"Invalid attribute {option}. Valid options are {sorted(values)}")
        return values[option]

    def __call__(self, option: str) -> Any:
        return getattr(self, option)

    def __deepcopy__(self, memo: Dict[int, Any]) -> "OptionSet":
        """A deep copy that is not frozen."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        for name, value in self.__dict__.items():
            copied.__dict__[name] = False if name == "_is_frozen" else copy.deepcopy(value, memo)
        return copied

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"
