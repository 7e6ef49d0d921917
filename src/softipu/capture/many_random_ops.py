"""Random ops of several micro-batches at once: each micro-batch draws what it draws alone."""

from typing import Any, Callable, Dict, List, Tuple

import torch

from softipu.capture.random_ops import _LIBRARY

_defined: Dict[Any, Any] = {}


def for_many(op: Any) -> Any:
    """The op that calls the seeded op ``op`` for each entry of the first dimension of its tensors, and stacks what it returns."""
    if op not in _defined:
        _defined[op] = _define(op)
    return _defined[op]


def _define(op: Any) -> Any:
    text = str(op._schema)
    name = op._schema.name.split("::")[-1].replace("seeded_", "many_seeded_", 1)
    _LIBRARY.define(name + text[text.index("(") :])

    def draw(*args: Any, **kwargs: Any) -> Any:
        n = next(a.shape[0] for a in args if isinstance(a, torch.Tensor))
        return _stacked([op(*_taken(args, i), **kwargs) for i in range(n)], torch.stack)

    def shape(*args: Any, **kwargs: Any) -> Any:
        n = next(a.shape[0] for a in args if isinstance(a, torch.Tensor))
        return _stacked([op(*_taken(args, 0), **kwargs)], lambda one: one[0].new_empty((n, *one[0].shape)))

    _LIBRARY.impl(name, draw, "CPU")
    _LIBRARY.impl(name, shape, "Meta")
    return getattr(torch.ops.softipu, name).default


def _taken(args: Tuple[Any, ...], index: int) -> List[Any]:
    return [a[index] if isinstance(a, torch.Tensor) else a for a in args]


def _stacked(results: List[Any], join: Callable[[List[torch.Tensor]], torch.Tensor]) -> Any:
    if isinstance(results[0], torch.Tensor):
        return join(results)
    return tuple(join(list(column)) for column in zip(*results))
