"""Options from a file of setter calls, one a line.

The lines look like Python but no Python runs: only calls of setters, PopTorch's own settings classes and enumerations, literals and
arithmetic on numbers are understood.
"""

import ast
import operator
import os
from typing import TYPE_CHECKING, Any, List, Tuple

import torch

from softipu.poptorch.blocks import strategies
from softipu.poptorch.options.option_set import OptionSet
from softipu.poptorch.options.popart import _PopartOptions
from softipu.poptorch.options.setter import GROUPS, find_enum, find_setter
from softipu.poptorch.options.tensor_locations import TensorLocationSettings

if TYPE_CHECKING:
    from softipu.poptorch.options.model_options import Options

CLASSES = {
    kind.__name__: kind
    for kind in (
        TensorLocationSettings,
        strategies.Stage,
        strategies.Phase,
        strategies.PipelinedExecution,
        strategies.ShardedExecution,
        strategies.ParallelPhasedExecution,
        strategies.SerialPhasedExecution,
    )
}
"""What a line may build with ``poptorch.<name>(...)``."""

DTYPES = ("float", "float32", "half", "float16")
"""What a line may name as ``torch.<name>``."""

ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


class ConfigFileError(Exception):
    """A line of an options file cannot be understood."""


class _NotUnderstood(Exception):
    pass


def apply(options: "Options", filepath: str) -> None:
    """Call the setters that the file's lines name. All lines are parsed before the first is applied.

    Raises:
        ConfigFileError: a line that is no call of a setter with simple arguments.
        AssertionError, ValueError: the setters' own errors.
    """
    calls: List[Tuple[int, int, str, ast.expr]] = []
    name = os.path.basename(filepath)
    with open(filepath, encoding="utf-8") as lines:
        for number, raw in enumerate(lines, start=1):
            line = raw.strip()
            if not line or line.startswith("#"):
                continue
            code = f"options.{line}"
            try:
                statements = ast.parse(code).body
            except SyntaxError as error:
                raise ConfigFileError(_message(type(error).__name__, len(calls) + 1, number, name, error.msg, code)) from None
            for statement in statements:
                if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
                    raise ConfigFileError(_message("SyntaxError", len(calls) + 1, number, name, "a line is a call of a setter", code))
            calls.extend((len(calls) + 1, number, code, statement.value) for statement in statements)  # type: ignore[attr-defined]
    for setting, number, code, call in calls:
        try:
            _evaluate(call, options)
        except _NotUnderstood as error:
            raise ConfigFileError(_message("ValueError", setting, number, name, str(error), code)) from None


def _message(kind: str, setting: int, line: int, file: str, detail: str, code: str) -> str:
    # PopTorch counts settings, leaving out blank lines and comments; both numbers are given where they differ.
    where = f" (line {line} of the file with blank lines and comments)" if line != setting else ""
    return f"{kind} at line {setting} of {file}: {detail}\n> {code}{where and chr(10) + where.strip()}"


def _evaluate(node: ast.AST, options: "Options") -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List):
        return [_evaluate(item, options) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_evaluate(item, options) for item in node.elts)
    if isinstance(node, ast.Set):
        return {_evaluate(item, options) for item in node.elts}
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {_evaluate(key, options): _evaluate(value, options) for key, value in zip(node.keys, node.values)}  # type: ignore[arg-type]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(node.operand, options)
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        return ARITHMETIC[type(node.op)](_number(node.left, options), _number(node.right, options))
    if isinstance(node, ast.Attribute):
        return _constant(node)
    if isinstance(node, ast.Call):
        return _call(node, options)
    raise _NotUnderstood(f"{type(node).__name__} is not allowed in an options file")


def _number(node: ast.AST, options: "Options") -> Any:
    value = _evaluate(node, options)
    if not isinstance(value, (int, float)):
        raise _NotUnderstood(f"arithmetic is for numbers only, given {value!r}")
    return value


def _dotted(node: ast.AST) -> str:
    """``a.b.c`` of nested attributes, or an empty string where something else than names is nested."""
    if isinstance(node, ast.Name):
        return node.id
    inner = _dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{inner}.{node.attr}" if inner else ""  # type: ignore[attr-defined]


def _constant(node: ast.Attribute) -> Any:
    """``poptorch.Enum.Member`` or ``torch.<dtype>``."""
    parts = [part for part in _dotted(node).split(".") if part != "enums"]
    if len(parts) == 2 and parts[0] == "torch" and parts[1] in DTYPES:
        return getattr(torch, parts[1])
    if len(parts) == 3 and parts[0] == "poptorch":
        try:
            return find_enum(parts[1])[parts[2]]
        except (AttributeError, KeyError):
            pass
    raise _NotUnderstood(f"{ast.dump(node) if not parts[0] else '.'.join(parts)} is no member of one of PopTorch's enumerations")


def _call(node: ast.Call, options: "Options") -> Any:
    arguments = [_evaluate(argument, options) for argument in node.args]
    if any(keyword.arg is None for keyword in node.keywords):
        raise _NotUnderstood("** is not allowed in an options file")
    keywords = {str(keyword.arg): _evaluate(keyword.value, options) for keyword in node.keywords}
    return _callee(node.func, options)(*arguments, **keywords)


def _callee(function: ast.AST, options: "Options") -> Any:
    dotted = _dotted(function)
    root, _, rest = dotted.partition(".")
    if root == "options" and rest:
        return find_setter(options, rest)
    if root == "poptorch" and rest.rpartition(".")[2] in CLASSES:
        return CLASSES[rest.rpartition(".")[2]]
    if not dotted and isinstance(function, ast.Attribute) and not function.attr.startswith("_"):
        # A setter chained to the result of another, or to a new settings object, or to a group of the options returned.
        inner = function.value
        if isinstance(inner, ast.Attribute) and inner.attr in GROUPS:
            owner = _evaluate(inner.value, options)
            if owner is options:
                return find_setter(options, f"{inner.attr}.{function.attr}")
        else:
            owner = _evaluate(inner, options)
            if isinstance(owner, (OptionSet, _PopartOptions, strategies.ExecutionStrategy, strategies.Stage, strategies.Phase)):
                if callable(getattr(type(owner), function.attr, None)):
                    return getattr(owner, function.attr)
    raise _NotUnderstood(f"{dotted or ast.dump(function)} cannot be called in an options file")
