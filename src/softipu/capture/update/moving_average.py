"""Moving averages, by the formula that the installed torch uses for them.

    a + (1 - decay) * (g - a)             "lerp": newer versions
    decay * a + (1 - decay) * g           older ones, with a bias in float32: decay and 1 - decay, rounded apart, do not add up to 1

They differ by 1e-6 after a hundred updates, so which one it is matters. It is found out by two updates of a few numbers.
"""

import operator
from functools import lru_cache
from typing import Dict, List, Tuple

import torch
from torch.fx import Node

from softipu.capture.update.tape import Tape, aten

_DECAY = 0.9
_PROBES: Dict[str, Tuple[type, Dict[str, object], str]] = {
    "Adam": (torch.optim.Adam, {"betas": (_DECAY, 0.999), "foreach": False}, "exp_avg"),
    "AdamW": (torch.optim.AdamW, {"betas": (_DECAY, 0.999), "foreach": False}, "exp_avg"),
    "RMSprop": (torch.optim.RMSprop, {"alpha": _DECAY, "centered": True, "foreach": False}, "grad_avg"),
}


@lru_cache(maxsize=None)
def is_lerp(rule: str) -> bool:
    """Whether a rule's averages of gradients move by lerp; LAMB's do, for its reference is ours."""
    if rule not in _PROBES:
        return True
    cls, options, key = _PROBES[rule]
    first = torch.linspace(-1.0, 1.0, 101)
    weight = torch.zeros_like(first).requires_grad_()
    optimizer = cls([weight], lr=1e-3, **options)
    expected = torch.zeros_like(first)
    for gradient in (first, first.cos()):
        weight.grad = gradient
        optimizer.step()
        expected.lerp_(gradient, 1 - _DECAY)
    return torch.equal(optimizer.state[weight][key], expected)


def move_in_place(tape: Tape, rule: str, averages: List[Node], gradients: List[Node], decay: Node) -> None:
    """Moves every average; ``decay`` is a Python float."""
    rest = tape.call(operator.sub, 1.0, decay)
    if is_lerp(rule):
        tape.call(aten._foreach_lerp_.Scalar, averages, gradients, rest)
    else:
        tape.call(aten._foreach_mul_.Scalar, averages, decay)
        tape.call(aten._foreach_add_.List, averages, gradients, alpha=rest)


def moved(tape: Tape, rule: str, average: Node, gradient: Node, decay: Node, rest: Node) -> Node:
    """The new average; ``decay`` and ``rest``, which is 1 - decay, are 0-d tensors."""
    if is_lerp(rule):
        return tape.call(aten.add.Tensor, average, tape.call(aten.mul.Tensor, tape.call(aten.sub.Tensor, gradient, average), rest))
    return tape.call(aten.add.Tensor, tape.call(aten.mul.Tensor, average, decay), tape.call(aten.mul.Tensor, gradient, rest))
