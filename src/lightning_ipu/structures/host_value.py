"""What a batch holds besides tensors and numbers: words, lists of words, other objects."""

from typing import Any, Callable


class HostValue:
    """A word, a list of words or another object in a batch. Steps rarely look at it; one that does is guarded by what it saw.

    To ``isinstance`` it is what it stands for. Any use reports to ``touched``, and goes on with the value itself.
    """

    __slots__ = ("_key", "_touched", "_value")

    def __init__(self, key: Any, value: Any, touched: Callable[[Any], None]) -> None:
        self._key, self._value, self._touched = key, value, touched

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._value)

    def _looked_at(self) -> Any:
        self._touched(self._key)
        return self._value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._looked_at(), name)


def _passing_on(name: str) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: getattr(self._looked_at(), name)(*args, **kwargs)


_SPECIAL = "getitem setitem iter len contains eq ne lt le gt ge hash str repr format add radd mul mod call enter exit fspath bytes"
for _name in _SPECIAL.split():
    setattr(HostValue, f"__{_name}__", _passing_on(f"__{_name}__"))
# Not every object has a __bool__ of its own.
setattr(HostValue, "__bool__", lambda self: bool(self._looked_at()))  # noqa: B010  mypy does not take an assignment


def is_host_value(value: Any) -> bool:
    """Whether ``value`` is a HostValue; ``isinstance`` cannot tell."""
    return type(value) is HostValue
