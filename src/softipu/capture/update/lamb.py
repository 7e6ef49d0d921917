"""LAMB (You et al. 2020): Adam's direction, its length set by the norm of each weight tensor.

    m, v as in Adam
    u = (m / (1 - beta1^t)) / (sqrt(v) / sqrt(1 - beta2^t) + eps) + weight_decay * w
    w = w - lr * trust * u,   trust = min(norm(w), max_weight_norm) / norm(u), and 1 if either norm is 0

Without bias correction both ``1 - beta^t`` are 1.
"""

import operator
from typing import List, Optional, Tuple

from torch.fx import Node

from softipu.capture.update.adam import bias_correction, counts, elementwise_moments, moments_in_place, scalar_correction, slots
from softipu.capture.update.rule import STEP, Group, Rule
from softipu.capture.update.spec import GroupSpec, OptimizerSpec
from softipu.capture.update.tape import Tape, aten


def _hyper(spec: OptimizerSpec, group: GroupSpec) -> Tuple[str, ...]:
    return ("lr", "beta1", "beta2", "eps") + (("weight_decay",) if group.weight_decay else ()) + ("max_weight_norm",)


def _fused(tape: Tape, spec: OptimizerSpec, flags: GroupSpec, group: Group) -> None:
    w, m, hyper, steps = group.parameters, group.states["Accl1"], group.hyper, group.states[STEP.prefix]
    tape.call(aten._foreach_add_.Scalar, steps, 1)
    u = moments_in_place(tape, spec, group)
    if spec.bias_correction:  # as in Adam, with r = sqrt(1 - beta2^t): r / (1 - beta1^t) * m / (sqrt(v) + eps * r)
        t = counts(tape, steps)
        r = tape.call(aten.sqrt.default, bias_correction(tape, t, hyper["beta2"]))
        factors = tape.call(aten.div.Tensor, r, bias_correction(tape, t, hyper["beta1"]))
        tape.call(aten._foreach_add_.ScalarList, u, tape.numbers(tape.call(aten.mul.Scalar, r, hyper["eps"])))
        _divide_in_place(tape, m, u)
        tape.call(aten._foreach_mul_.ScalarList, u, tape.numbers(factors))
    else:
        tape.call(aten._foreach_add_.Scalar, u, hyper["eps"])
        _divide_in_place(tape, m, u)
    if flags.weight_decay:
        tape.call(aten._foreach_add_.List, u, w, alpha=hyper["weight_decay"])
    norm_w, norm_u = (tape.call(aten.stack.default, tape.items(tape.call(aten._foreach_norm.Scalar, x, 2), len(w))) for x in (w, u))
    limited = tape.call(aten.clamp.default, norm_w, None, hyper["max_weight_norm"])
    rates = tape.call(aten.mul.Scalar, _trust(tape, limited, norm_w, norm_u), tape.call(operator.neg, hyper["lr"]))
    for weight, change, rate in zip(w, u, tape.items(tape.numbers(rates), len(w))):
        tape.call(aten.add_.Tensor, weight, change, alpha=rate)


def _divide_in_place(tape: Tape, numerators: List[Node], denominators: List[Node]) -> None:
    """The quotients, in the memory of the denominators."""
    for numerator, denominator in zip(numerators, denominators):
        tape.call(aten.div.out, numerator, denominator, out=denominator)


def _trust(tape: Tape, limited: Node, norm_w: Node, norm_u: Node) -> Node:
    is_usable = tape.call(aten.logical_and.default, tape.call(aten.ne.Scalar, norm_w, 0), tape.call(aten.ne.Scalar, norm_u, 0))
    return tape.call(aten.where.ScalarOther, is_usable, tape.call(aten.div.Tensor, limited, norm_u), 1.0)


def _elementwise(tape: Tape, spec: OptimizerSpec, flags: GroupSpec, group: Group) -> None:
    hyper = group.hyper
    rest1, rest2 = (tape.call(aten.rsub.Scalar, hyper[beta], 1) for beta in ("beta1", "beta2"))
    for i, (w, g) in enumerate(zip(group.parameters, group.gradients)):
        m, v, step = elementwise_moments(tape, spec, group, i, g, rest1, rest2)
        root = tape.call(aten.sqrt.default, v)
        correction1: Optional[Node] = None
        if spec.bias_correction:
            correction1 = scalar_correction(tape, hyper["beta1"], step)
            correction2 = scalar_correction(tape, hyper["beta2"], step)
            root = tape.call(aten.div.Tensor, root, tape.call(aten.sqrt.default, correction2))
        root = tape.call(aten.add.Tensor, root, hyper["eps"])
        if correction1 is not None:
            root = tape.call(aten.mul.Tensor, root, correction1)
        change = tape.call(aten.div.Tensor, m, root)
        if flags.weight_decay:
            change = tape.call(aten.add.Tensor, change, tape.call(aten.mul.Tensor, w, hyper["weight_decay"]))
        norm_w, norm_u = (tape.call(aten.linalg_vector_norm.default, x) for x in (w, change))
        limited = tape.call(aten.minimum.default, norm_w, hyper["max_weight_norm"])
        rate = tape.call(aten.mul.Tensor, _trust(tape, limited, norm_w, norm_u), hyper["lr"])
        group.parameters[i] = tape.call(aten.sub.Tensor, w, tape.call(aten.mul.Tensor, change, rate))


LAMB = Rule(hyper=_hyper, slots=slots, fused=_fused, elementwise=_elementwise)
