"""Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), as torch.optim computes them.

    Adam:  g = gradient + weight_decay * w          AdamW:  w = w * (1 - lr * weight_decay)
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g^2
    w = w - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)

The two differ only in ``GroupSpec.decoupled``.
"""

import operator
from typing import List, Tuple

import torch
from torch.fx import Node

from softipu.capture.update.kernels import has_fused
from softipu.capture.update.moving_average import move_in_place, moved
from softipu.capture.update.rule import STEP, Group, Rule, Slot
from softipu.capture.update.spec import GroupSpec, OptimizerSpec
from softipu.capture.update.tape import Tape, aten


def _hyper(spec: OptimizerSpec, group: GroupSpec) -> Tuple[str, ...]:
    return ("lr", "beta1", "beta2", "eps") + (("weight_decay",) if group.weight_decay else ())


def slots(spec: OptimizerSpec, group: GroupSpec) -> Tuple[Slot, ...]:
    """First and second moment and the number of updates; LAMB's too."""
    return (Slot("Accl1", "exp_avg", spec.first_order_type), Slot("Accl2", "exp_avg_sq", spec.second_order_type), STEP)


def _fused(tape: Tape, spec: OptimizerSpec, flags: GroupSpec, group: Group) -> None:
    kernel = "_fused_adamw_" if flags.decoupled else "_fused_adam_"
    w, g, hyper = group.parameters, group.gradients, group.hyper
    m, v, steps = group.states["Accl1"], group.states["Accl2"], group.states[STEP.prefix]
    tape.call(aten._foreach_add_.Scalar, steps, 1)
    if has_fused(kernel):
        tape.call(
            getattr(aten, kernel).default,
            w,
            g,
            m,
            v,
            [],
            steps,
            lr=hyper["lr"],
            beta1=hyper["beta1"],
            beta2=hyper["beta2"],
            weight_decay=hyper.get("weight_decay", 0.0),
            eps=hyper["eps"],
            amsgrad=False,
            maximize=False,
        )
        return
    if flags.weight_decay and flags.decoupled:
        decay = tape.call(operator.mul, hyper["lr"], hyper["weight_decay"])
        tape.call(aten._foreach_mul_.Scalar, w, tape.call(operator.sub, 1.0, decay))
    elif flags.weight_decay:
        tape.call(aten._foreach_add_.List, g, w, alpha=hyper["weight_decay"])
    # With r = sqrt(1 - beta2^t): m / (sqrt(v) / r + eps) = m * r / (sqrt(v) + eps * r), one pass over memory less.
    t = counts(tape, steps)
    root = moments_in_place(tape, spec, group)
    r = tape.call(aten.sqrt.default, bias_correction(tape, t, hyper["beta2"]))
    tape.call(aten._foreach_add_.ScalarList, root, tape.numbers(tape.call(aten.mul.Scalar, r, hyper["eps"])))
    rate = tape.call(aten.mul.Scalar, r, tape.call(operator.neg, hyper["lr"]))
    step_sizes = tape.call(aten.div.Tensor, rate, bias_correction(tape, t, hyper["beta1"]))
    tape.call(aten._foreach_addcdiv_.ScalarList, w, m, root, tape.numbers(step_sizes))


def counts(tape: Tape, steps: List[Node]) -> Node:
    """The update counts of all parameters as one vector in float64."""
    return tape.call(aten._to_copy.default, tape.call(aten.stack.default, steps), dtype=torch.float64)


def bias_correction(tape: Tape, t: Node, beta: Node) -> Node:
    """``1 - beta^t`` for a vector of update counts in float64."""
    return tape.call(aten.rsub.Scalar, tape.call(aten.pow.Scalar, beta, t), 1)


def moments_in_place(tape: Tape, spec: OptimizerSpec, group: Group) -> List[Node]:
    """Moves both moments by the gradients. The result is the square roots of the second, in the memory of the gradients.

    A list of new tensors as large as the weights would be given back to the system after every update, and page faults then
    cost more than the arithmetic.
    """
    g, hyper = group.gradients, group.hyper
    m, v = group.states["Accl1"], group.states["Accl2"]
    move_in_place(tape, spec.rule, m, g, hyper["beta1"])
    tape.call(aten._foreach_mul_.Scalar, v, hyper["beta2"])
    tape.call(aten._foreach_addcmul_.Scalar, v, g, g, tape.call(operator.sub, 1.0, hyper["beta2"]))
    for source, target in zip(v, g):
        tape.call(aten.sqrt.out, source, out=target)
    return g


def elementwise_moments(
    tape: Tape, spec: OptimizerSpec, group: Group, i: int, g: Node, rest1: Node, rest2: Node
) -> Tuple[Node, Node, Node]:
    """The new first and second moment and count of parameter ``i``, also stored in ``group``; ``rest`` is ``1 - beta``."""
    m, v, steps = group.states["Accl1"], group.states["Accl2"], group.states[STEP.prefix]
    steps[i] = tape.call(aten.add.Scalar, steps[i], 1)
    m[i] = moved(tape, spec.rule, m[i], g, group.hyper["beta1"], rest1)
    square = tape.call(aten.mul.Tensor, g, g)
    v[i] = tape.call(aten.add.Tensor, tape.call(aten.mul.Tensor, v[i], group.hyper["beta2"]), tape.call(aten.mul.Tensor, square, rest2))
    return m[i], v[i], steps[i]


def scalar_correction(tape: Tape, beta: Node, step: Node) -> Node:
    """``1 - beta^step`` for 0-d tensors, in float64."""
    return tape.call(aten.rsub.Scalar, tape.call(aten.pow.Tensor_Tensor, beta, step), 1)


def _elementwise(tape: Tape, spec: OptimizerSpec, flags: GroupSpec, group: Group) -> None:
    hyper = group.hyper
    rest1, rest2 = (tape.call(aten.rsub.Scalar, hyper[beta], 1) for beta in ("beta1", "beta2"))
    kept = None
    if flags.weight_decay and flags.decoupled:
        kept = tape.call(aten.rsub.Scalar, tape.call(aten.mul.Tensor, hyper["lr"], hyper["weight_decay"]), 1)
    for i, (w, g) in enumerate(zip(group.parameters, group.gradients)):
        if kept is not None:
            w = tape.call(aten.mul.Tensor, w, kept)
        elif flags.weight_decay:
            g = tape.call(aten.add.Tensor, g, tape.call(aten.mul.Tensor, w, hyper["weight_decay"]))
        m, v, step = elementwise_moments(tape, spec, group, i, g, rest1, rest2)
        root2 = tape.call(aten.sqrt.default, scalar_correction(tape, hyper["beta2"], step))
        denominator = tape.call(aten.add.Tensor, tape.call(aten.div.Tensor, tape.call(aten.sqrt.default, v), root2), hyper["eps"])
        step_size = tape.call(aten.div.Tensor, hyper["lr"], scalar_correction(tape, hyper["beta1"], step))
        change = tape.call(aten.mul.Tensor, tape.call(aten.div.Tensor, m, denominator), step_size)
        group.parameters[i] = tape.call(aten.sub.Tensor, w, change)


ADAM = Rule(hyper=_hyper, slots=slots, fused=_fused, elementwise=_elementwise)
"""Adam and AdamW."""
