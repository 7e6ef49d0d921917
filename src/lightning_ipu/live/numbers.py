"""Numbers that a step reads while it is captured and that change later: batch_idx, current_epoch, a counter, a weight that warms up.

A LiveNumber stands in for such a number. Arithmetic on it gives another LiveNumber, whose value the host works out before every call.
Arithmetic with a tensor makes it an input of the compiled step. Whatever needs its value at once (a comparison, a shape, an index) gets the
value and notes a **guard**: what was asked and what the answer was. A step is used only while its guards give the same answers.
"""

import functools
import importlib.util
import math
import numbers
import operator
import os
import sys
import sysconfig
from dataclasses import dataclass
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

import torch

from lightning_ipu.live import names as live_names
from lightning_ipu.live.recapture import Recapture

Env = Mapping[Any, Any]
Expression = Callable[[Env], Any]

# Tensor arithmetic in which a number may stand where a tensor may.
_ELEMENTWISE = frozenset(
    ["add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "floor_divide", "pow", "remainder", "fmod", "rsub"]
    + ["eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum", "where", "lerp", "clamp", "clip", "clamp_min", "clamp_max", "fill_"]
    + ["__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__div__", "__rdiv__"]
    + ["__pow__", "__rpow__", "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__eq__", "__ne__", "__lt__", "__le__"]
    + ["__gt__", "__ge__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__idiv__", "add_", "sub_", "mul_", "div_", "masked_fill"]
)

# A call of the user's may go over so many lines before one of its arguments.
_LINES_OF_A_CALL = 5


@dataclass(frozen=True)
class Place:
    """Where in the user's code something was read: file and line."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Guard:
    """A question about live numbers and the answer on which the captured step rests.

    Attributes:
        ask: the question, of the values of one micro-batch.
        answer: what it gave at capture.
        names: the names that the question is about, such as ``batch_idx`` or ``self.beta``.
        keys: the same as keys of the environment.
        place: the user's line that asked.
    """

    ask: Expression
    answer: Any
    names: Tuple[str, ...]
    keys: FrozenSet[Any]
    place: Optional[Place]


class Needs:
    """What the numbers of one capture turned out to need: inputs of the step, and guards."""

    def __init__(self, env: Env, as_tensor: Callable[[Expression, Any], torch.Tensor]) -> None:
        self.env = env
        self.as_tensor = as_tensor
        self.guards: List[Guard] = []
        self.texts: List[Tuple[Tuple[str, ...], Optional[Place]]] = []
        self._in_texts: List[Tuple[LiveNumber, str, Optional[Place]]] = []

    def note_text(self, number: "LiveNumber", text: str) -> str:
        """Text is made once, when the step is captured. A guard would capture again for every line that is printed."""
        place = user_place()
        self.texts.append((number._names, place))
        self._in_texts.append((number, text, place))
        return text

    def fix_texts(self, text: str) -> None:
        """Guards the numbers that may be in ``text``: the step goes on to compute with it."""
        for number, part, _ in self._in_texts:
            if part in text:
                number._known()

    def fix_name(self, name: str, call: Optional[Place]) -> None:
        """Guards the numbers in a name that the call at ``call`` made in place: ``self.log(f"loss_{epoch}", loss)``."""
        for number, part, place in self._in_texts:
            is_in_call = (
                place is not None and call is not None and place.file == call.file and 0 <= place.line - call.line <= _LINES_OF_A_CALL
            )
            if is_in_call and part in name:
                number._known()


class LiveNumber:
    """A number whose value depends on the call. To ``isinstance`` it is an int or a float, to C code it is not."""

    __slots__ = ("_expression", "_keys", "_names", "_needs", "_value")

    def __init__(self, needs: Needs, expression: Expression, value: Any, names: Tuple[str, ...], keys: FrozenSet[Any]) -> None:
        self._needs, self._expression, self._value = needs, expression, value
        self._names, self._keys = names, keys

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._value)

    def _settle(self, ask: Expression, answer: Any) -> Any:
        self._needs.guards.append(Guard(ask, answer, self._names, self._keys, user_place()))
        return answer

    def _known(self) -> Any:
        """The value, from now on guarded."""
        return self._settle(self._expression, self._value)

    def _with(self, function: Callable[..., Any], *others: Any) -> Any:
        if any(isinstance_of_tensor(other) for other in others):
            return NotImplemented
        if not all(isinstance(other, numbers.Real) for other in others):
            return NotImplemented
        return applied(function, (self, *others), {})

    def _asked(self, function: Callable[[Any, Any], bool], other: Any) -> Any:
        result = self._with(function, other)
        return result if result is NotImplemented else result._known()

    def __bool__(self) -> bool:
        return bool(self._settle(lambda env: bool(self._expression(env)), bool(self._value)))

    def __index__(self) -> int:
        return operator.index(self._known())

    def holds(self, condition: Callable[[Any], bool]) -> bool:
        """Whether ``condition`` is true of the value; from now on guarded."""
        return bool(self._settle(lambda env: condition(self._expression(env)), condition(self._value)))

    def as_tensor(self) -> torch.Tensor:
        """The number as an input of the step: a 0-d tensor."""
        return self._needs.as_tensor(self._expression, self._value)

    def __int__(self) -> int:
        _ask_for_names(live_names.missing_scope(_is_users))
        return int(self._settle(lambda env: int(self._expression(env)), int(self._value)))

    def __float__(self) -> float:
        _ask_for_names(live_names.missing_scope(_is_users))
        return float(self._known())

    def __hash__(self) -> int:
        return hash(self._known())

    def __repr__(self) -> str:
        return self._needs.note_text(self, repr(self._value))

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        # float() of the text is noticed only where float means something else.
        _ask_for_names(live_names.missing_scope(_is_users))
        return self._needs.note_text(self, format(self._value, spec))

    def __array_ufunc__(self, function: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        return self._in_numpy(getattr(function, method), args, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self._in_numpy(function, args, kwargs)

    def _in_numpy(self, function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        result = function(*(_now(arg) for arg in args), **{name: _now(arg) for name, arg in kwargs.items()})
        if isinstance(result, numbers.Real):
            return applied(function, args, kwargs)
        return function(*(_as_value(arg, None) for arg in args), **{name: _as_value(arg, None) for name, arg in kwargs.items()})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._known(), name)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        convert = _as_input if name in _ELEMENTWISE else _as_value
        partner = next((arg for arg in (*args, *(kwargs or {}).values()) if isinstance_of_tensor(arg)), None)
        return func(*(convert(arg, partner) for arg in args), **{key: convert(arg, partner) for key, arg in (kwargs or {}).items()})


def _binary(function: Callable[[Any, Any], Any]) -> Tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: LiveNumber, other: Any) -> Any:
        return self._with(function, other)

    def backward(self: LiveNumber, other: Any) -> Any:
        return self._with(lambda a, b: function(b, a), other)

    return forward, backward


def _comparison(function: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    return lambda self, other: self._asked(function, other)


def _unary(function: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda self, *more: self._with(lambda value: function(value, *more))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor"):
    _forward, _backward = _binary(getattr(operator, _name))
    setattr(LiveNumber, f"__{_name.rstrip('_')}__", _forward)
    setattr(LiveNumber, f"__r{_name.rstrip('_')}__", _backward)
for _name, _function in (
    ("neg", operator.neg),
    ("pos", operator.pos),
    ("abs", abs),
    ("round", round),
    ("floor", math.floor),
    ("ceil", math.ceil),
):
    setattr(LiveNumber, f"__{_name}__", _unary(_function))
for _name, _method in (
    ("trunc", _unary(math.trunc)),
    ("divmod", lambda self, other: (self // other, self % other)),
):
    setattr(LiveNumber, f"__{_name}__", _method)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(LiveNumber, f"__{_name}__", _comparison(getattr(operator, _name)))


def applied(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A live number: what ``function`` gives for arguments of which some are live numbers."""
    named = tuple(kwargs)
    operands = (*args, *kwargs.values())
    parts = tuple(operand for operand in operands if is_live(operand))
    expressions = tuple(operand._expression if is_live(operand) else _constant(operand) for operand in operands)

    def call(values: Sequence[Any]) -> Any:
        result = function(*values[: len(args)], **dict(zip(named, values[len(args) :])))
        return result.item() if hasattr(result, "item") else result

    return LiveNumber(
        parts[0]._needs,
        lambda env: call([expression(env) for expression in expressions]),
        call([_now(operand) for operand in operands]),
        tuple(dict.fromkeys(name for part in parts for name in part._names)),
        frozenset().union(*(part._keys for part in parts)),
    )


def live(needs: Needs, key: Any, name: str) -> LiveNumber:
    """The live number that the environment has under ``key``."""
    return LiveNumber(needs, lambda env: env[key], needs.env[key], (name,), frozenset([key]))


def is_live(value: Any) -> bool:
    """Whether ``value`` is a LiveNumber; ``isinstance`` cannot tell, as a LiveNumber claims to be an int or a float."""
    return type(value) is LiveNumber


def isinstance_of_tensor(value: Any) -> bool:
    """Whether ``value`` is a tensor."""
    return isinstance(value, torch.Tensor)


def evaluated(value: Any, env: Env) -> Any:
    """The value of a live number in ``env``; other values as they are."""
    return value._expression(env) if is_live(value) else value


def user_place() -> Optional[Place]:
    """The line that runs now in code that is neither the plug-in's nor an installed package's."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if _is_users(file):
            return Place(file, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _is_users(file: str) -> bool:
    if file.startswith("<"):
        return file.startswith(("<ipython-input", "<stdin>"))
    # Python 3.8 has the name of a script as it was given.
    path = os.path.abspath(file)
    return not path.startswith(_not_users()) and "site-packages" not in path and "dist-packages" not in path


def _ask_for_names(scope: Optional[live_names.Scope]) -> None:
    if scope is not None:
        raise Recapture(live=frozenset([scope]))


def _now(value: Any) -> Any:
    return value._value if is_live(value) else value


@functools.lru_cache(maxsize=None)
def _not_users() -> Tuple[str, ...]:
    """Folders whose code is nobody's step: the plug-in, the software IPU, the standard library."""
    software = importlib.util.find_spec("softipu")
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [package, sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["platstdlib"]]
    folders += list(software.submodule_search_locations or []) if software is not None else []
    return tuple(os.path.join(folder, "") for folder in folders)


def _constant(value: Any) -> Expression:
    return lambda env: value


def _as_value(value: Any, partner: Any) -> Any:
    if isinstance(value, (list, tuple)) and any(is_live(item) for item in value):
        return type(value)(_as_value(item, partner) for item in value)
    return value._known() if is_live(value) else value


def _as_input(value: Any, partner: Any) -> Any:
    if not is_live(value):
        return value
    tensor = value.as_tensor()
    # A Python number takes the dtype of the tensor that it meets, where a 0-d tensor might change it.
    return tensor if partner is None else tensor.to(torch.result_type(partner, value._value))
