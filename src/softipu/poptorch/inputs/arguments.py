"""Binds a call's arguments to the signature of a module's forward."""

import inspect
from dataclasses import dataclass
from typing import Any, Dict, Tuple

from torch import nn

from softipu.errors import Error

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class BoundArguments:
    """The arguments of one call, in the order of forward's signature, defaults filled in.

    Attributes:
        args: positional ones.
        kwargs: those that forward takes by keyword only.
        names: one for each of ``args``.
    """

    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]
    names: Tuple[str, ...]


def bind(module: nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> BoundArguments:
    """``args`` and ``kwargs`` as forward will see them.

    Raises:
        Error: a mandatory parameter is missing.
        AssertionError: too many positional arguments, or an unknown keyword.
    """
    parameters = inspect.signature(module.forward).parameters
    has_args = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters.values())
    has_kwargs = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    named = [p for p in parameters.values() if p.kind not in _VARIADIC]
    positional = [p for p in named if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    name = type(module).__name__
    assert has_args or len(args) <= len(positional), (
        f"Too many arguments provided: {name}.forward takes {len(positional)} positional arguments "
        f"({', '.join(p.name for p in positional)}), "
        f"but {len(args)} were given."
    )
    unknown = set(kwargs) - {p.name for p in named}
    assert has_kwargs or not unknown, f"Unknown argument {sorted(unknown)} of {name}.forward; it takes {', '.join(p.name for p in named)}."
    bound: Dict[str, Any] = {p.name: value for p, value in zip(positional, args)}
    variadic = args[len(positional) :]
    extra: Dict[str, Any] = {}
    for key, value in kwargs.items():
        assert key not in bound, f"{name}.forward got several values for argument {key!r}."
        (bound if any(p.name == key for p in named) else extra)[key] = value
    for parameter in named:
        if parameter.name not in bound:
            if parameter.default is inspect.Parameter.empty:
                raise Error(f"Mandatory parameter {parameter.name} missing in the call of {name}.forward.")
            bound[parameter.name] = parameter.default
    values = (*(bound[p.name] for p in positional), *variadic)
    keywords = {p.name: bound[p.name] for p in named if p.kind is inspect.Parameter.KEYWORD_ONLY}
    keywords.update(extra)
    return BoundArguments(values, keywords, (*(p.name for p in positional), *(f"*args[{i}]" for i in range(len(variadic)))))
