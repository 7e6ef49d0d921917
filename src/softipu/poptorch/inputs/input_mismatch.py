"""Telling what of a call's inputs differs from those that a model was compiled for."""

from dataclasses import dataclass
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple

import torch

from softipu.errors import InputMismatchError
from softipu.poptorch.inputs.structure import ConstantSpec, CustomSpec, DataclassSpec, SequenceSpec, Spec, TensorSpec, flatten, same_value

ADVICE = (
    "\nThe inputs of this call differ from those that the model was compiled for. To compile for the new inputs make a new "
    "inferenceModel / trainingModel wrapper, or call destroy() on this one and call it again."
)


@dataclass(frozen=True)
class TensorKind:
    """What must stay the same of a tensor from call to call."""

    dtype: torch.dtype
    shape: torch.Size


@dataclass(frozen=True)
class FlatCall:
    """The arguments of one call, flattened.

    Attributes:
        names: of the positional arguments, as forward has them; ``*args[0]`` for variadic ones.
        positional: a spec for each of them.
        named: specs of the keyword arguments, by name in sorted order.
        kinds: dtype and shape of all tensors, positional arguments first, in the order of ``flatten_call``.
    """

    names: Tuple[str, ...]
    positional: Tuple[Spec, ...]
    named: Dict[str, Spec]
    kinds: Tuple[TensorKind, ...]


def flatten_call(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tuple[Sequence[torch.Tensor], FlatCall]:
    """All tensors of a call's arguments, and what must stay the same in later calls.

    Args:
        names: one for each of ``args``.
        args: positional arguments, defaults filled in.
        kwargs: arguments that stay named (those after variadic ones).
    """
    positional = [flatten(value) for value in args]
    named = {name: flatten(kwargs[name]) for name in sorted(kwargs)}
    tensors = [tensor for part, _ in [*positional, *named.values()] for tensor in part]
    kinds = tuple(TensorKind(tensor.dtype, tensor.shape) for tensor in tensors)
    return tensors, FlatCall(tuple(names), tuple(spec for _, spec in positional), {n: spec for n, (_, spec) in named.items()}, kinds)


def unflatten_call(call: FlatCall, tensors: Sequence[Any]) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """The positional and named arguments of a call, around other tensors."""
    remaining = iter(tensors)
    return tuple(spec.build(remaining) for spec in call.positional), {name: spec.build(remaining) for name, spec in call.named.items()}


def tensor_names(call: FlatCall) -> Sequence[str]:
    """A name for each tensor of a call, for messages."""
    named = [*zip(call.names, call.positional), *call.named.items()]
    return [name if spec.n_tensors == 1 else f"{name}[{i}]" for name, spec in named for i in range(spec.n_tensors)]


def check_same_inputs(compiled: FlatCall, given: FlatCall) -> None:
    """Compare a call with the one that the model was compiled for.

    Raises:
        InputMismatchError: the first difference: number, type, length, keys, dtype, shape or value.
    """
    if compiled != given:
        difference = describe_call_mismatch(compiled, given)
        if difference is not None:
            raise InputMismatchError(difference + ADVICE)


def describe_call_mismatch(compiled: FlatCall, given: FlatCall) -> Optional[str]:
    """The first difference between two calls, or None."""
    if len(compiled.positional) != len(given.positional):
        return f"Number of positional arguments mismatch: expected {len(compiled.positional)} arguments but got {len(given.positional)}."
    compiled_kinds, given_kinds = iter(compiled.kinds), iter(given.kinds)
    for name, expected, got in zip(compiled.names, compiled.positional, given.positional):
        difference = _compare(name, expected, got, compiled_kinds, given_kinds)
        if difference is not None:
            return difference
    difference = _compare_keys("named arguments", compiled.named, given.named)
    if difference is not None:
        return difference
    for name, expected in compiled.named.items():
        difference = _compare(name, expected, given.named[name], compiled_kinds, given_kinds)
        if difference is not None:
            return difference
    return None


def describe_mismatch(
    name: str, compiled: Spec, compiled_tensors: Sequence[Any], given: Spec, given_tensors: Sequence[Any]
) -> Optional[str]:
    """The first difference between two values called ``name``, or None. Of the tensors only ``dtype`` and ``shape`` are read."""
    return _compare(name, compiled, given, iter(compiled_tensors), iter(given_tensors))


def _compare(name: str, expected: Spec, got: Spec, expected_kinds: Iterator[Any], got_kinds: Iterator[Any]) -> Optional[str]:
    if expected.kind is not got.kind:
        return f"Type mismatch for {name}: expected {expected.kind} but got {got.kind}."
    if isinstance(expected, TensorSpec):
        return _compare_tensors(name, next(expected_kinds), next(got_kinds))
    if isinstance(expected, ConstantSpec) and isinstance(got, ConstantSpec):
        if same_value(expected.value, got.value):
            return None
        return f"Value mismatch for {name}: expected {expected.value} but got {got.value}."
    if type(expected) is not type(got):  # a dataclass with tensors in it and one without
        return f"Value mismatch for {name}: expected {expected.n_tensors} tensors in {expected.kind} but got {got.n_tensors}."
    parts, others = expected.children(), got.children()
    if isinstance(expected, (SequenceSpec, CustomSpec)) and len(parts) != len(others):
        return f"Length mismatch for {name}: expected {len(parts)} elements but got {len(others)}."
    difference = _compare_keys(name, parts, others)
    if difference is not None:
        return difference
    for key, part in parts.items():
        inner = f"{name}.{key}" if isinstance(expected, DataclassSpec) else f"{name}[{key}]"
        difference = _compare(inner, part, others[key], expected_kinds, got_kinds)
        if difference is not None:
            return difference
    return None


def _compare_keys(name: str, expected: Mapping[Any, Spec], got: Mapping[Any, Spec]) -> Optional[str]:
    details = []
    if set(got) - set(expected):
        details.append(f"Unexpected arguments: {', '.join(sorted(map(str, set(got) - set(expected))))}")
    if set(expected) - set(got):
        details.append(f"Missing arguments: {', '.join(sorted(map(str, set(expected) - set(got))))}")
    return f"Keys mismatch for {name}: {'. '.join(details)}." if details else None


def _compare_tensors(name: str, expected: Any, got: Any) -> Optional[str]:
    if expected.dtype != got.dtype:
        return f"Data type mismatch for {name}: expected {expected.dtype} but got {got.dtype}."
    if tuple(expected.shape) != tuple(got.shape):
        return f"Shape mismatch for {name}: expected {expected.shape} but got {got.shape}."
    return None
