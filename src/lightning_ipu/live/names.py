"""float, int and the functions of math in the user's code, for live numbers.

``float(batch_idx)`` calls ``__float__``, which has to answer with a plain float: the number would be frozen. So a step that does that is
captured anew while these names mean something else in the modules that use them: for a live number they give a live number, for
everything else they are what they were.
"""

import contextlib
import math
import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

_MATH: Dict[str, Any] = {name: value for name, value in vars(math).items() if callable(value) and not name.startswith("_")}
_active: List["Scope"] = []


@dataclass(frozen=True)
class Scope:
    """The global names of one module of the user's."""

    names: Dict[str, Any]

    def __hash__(self) -> int:
        return id(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scope) and other.names is self.names


def missing_scope(is_users: Callable[[str], bool]) -> Optional[Scope]:
    """The module whose line runs now, if it is the user's own and its names are not replaced: called by a method that C code calls."""
    frame = sys._getframe(2)
    scope = Scope(frame.f_globals)
    return None if not is_users(frame.f_code.co_filename) or scope in _active else scope


def are_replaced() -> bool:
    """Whether names of some module are replaced now."""
    return bool(_active)


@contextlib.contextmanager
def replaced(
    scopes: Iterable[Scope], applied: Callable[..., Any], is_live: Callable[[Any], bool], on_text: Callable[[str], None]
) -> Iterator[None]:
    """float, int and math take live numbers in ``scopes`` meanwhile.

    Args:
        scopes: modules.
        applied: calls a function with live numbers among its arguments.
        is_live: tells a live number.
        on_text: called with a text that is made into a number.
    """
    wanted = list(scopes)
    if not wanted:
        yield
        return
    stand_ins = {id(function): _taking_live(function, applied, is_live) for function in _MATH.values()}
    undo: List[Tuple[Dict[str, Any], str, Any]] = []

    def put(names: Dict[str, Any], name: str, value: Any) -> None:
        undo.append((names, name, names.get(name, undo)))
        names[name] = value

    kinds = {kind: _Kind(kind.__name__, (), {"_original": kind, "_rules": (applied, is_live, on_text)}) for kind in (float, int)}
    before_this = list(_active)
    try:
        for name, function in _MATH.items():
            put(vars(math), name, stand_ins[id(function)])
        for scope in wanted:
            for name, value in list(scope.names.items()):
                if id(value) in stand_ins:
                    put(scope.names, name, stand_ins[id(value)])
            for kind, stand_in in kinds.items():
                if scope.names.get(kind.__name__, kind) is kind:
                    put(scope.names, kind.__name__, stand_in)
        _active.extend(wanted)
        yield
    finally:
        _active[:] = before_this
        for names, name, before in reversed(undo):
            if before is undo:
                names.pop(name, None)
            else:
                names[name] = before


def original_of(value: Any) -> Any:
    """float or int for what stands in for it; other values as they are."""
    return value._original if type(value) is _Kind else value


def _taking_live(function: Callable[..., Any], applied: Callable[..., Any], is_live: Callable[[Any], bool]) -> Callable[..., Any]:
    def taking(*args: Any, **kwargs: Any) -> Any:
        if any(is_live(arg) for arg in args):
            return applied(function, args, kwargs)
        return function(*args, **kwargs)

    return taking


class _Kind(type):
    """What stands in for float or int: calls, isinstance, == and attributes are as there."""

    _original: Any
    _rules: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        applied, is_live, on_text = cls._rules
        if any(is_live(arg) for arg in args):
            return applied(cls._original, args, kwargs)
        for arg in args:
            if isinstance(arg, str):
                on_text(arg)
        return cls._original(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls._original)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls._original)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls._original

    def __hash__(cls) -> int:
        return hash(cls._original)

    def __getattr__(cls, name: str) -> Any:
        numpy = sys.modules.get("numpy")
        if name == "dtype" and numpy is not None:  # numpy asks an unknown class for it
            return numpy.dtype(cls._original)
        return getattr(cls._original, name)
