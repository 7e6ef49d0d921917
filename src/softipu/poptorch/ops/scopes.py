"""Names and attributes for the operations inside a ``with`` scope: NameScope, Attribute. They change no value."""

from typing import Any, Dict, List

from softipu.capture.name_scopes import ScopeBegin, begin_scope, end_scope

_names: List[str] = []
_attributes: List[Dict[str, Dict[str, Any]]] = []


class NameScope:
    """Prefix of the names of the operations inside.

    Raises:
        AssertionError: no string.
    """

    def __init__(self, name: str) -> None:
        assert isinstance(name, str), f"Parameter to NameScope must be a string, given {name!r}"
        self.name = name
        self._begun: List[ScopeBegin] = []

    def __enter__(self) -> None:
        _names.append(self.name)
        self._begun.append(begin_scope())

    def __exit__(self, *raised: Any) -> None:
        _names.pop()
        end_scope(self.name, self._begun.pop())


class Attribute:
    """Compiler attributes of the operations inside, as ``Attribute(__outline={"layer": "embedding"})``.

    Raises:
        AssertionError: a value that is no dict.
    """

    def __init__(self, **attributes: Dict[str, Any]) -> None:
        for name, value in attributes.items():
            assert isinstance(value, dict), f"Attribute {name} needs a dict of names and values, given {value!r}"
        self._attributes = attributes

    def __enter__(self) -> None:
        outer = _attributes[-1] if _attributes else {}
        inner = {name: {**outer.get(name, {}), **value} for name, value in self._attributes.items()}
        _attributes.append({**outer, **inner})

    def __exit__(self, *raised: Any) -> None:
        _attributes.pop()


def current_name_scope() -> str:
    """Names of the scopes around, outermost first, joined by ``/``."""
    return "/".join(_names)


def current_attributes() -> Dict[str, Dict[str, Any]]:
    """Attributes of the scopes around; inner ones go before outer ones."""
    return _attributes[-1] if _attributes else {}
