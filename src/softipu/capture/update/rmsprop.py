"""RMSprop, as torch.optim computes it, and TensorFlow's variant of it.

    g = gradient + weight_decay * w
    s = alpha * s + (1 - alpha) * g^2
    a = alpha * a + (1 - alpha) * g;  q = s - a^2     if centered, else q = s

            torch                                    use_tf_variant (s starts at 1)
            u = g / (sqrt(q) + eps)                  u = g / sqrt(q + eps)
            b = momentum * b + u;  w = w - lr * b    b = momentum * b + lr * u;  w = w - b

PopART's names: Accl1 is s, Accl2 is a, Accl3 is b.
"""

import operator
from typing import Tuple

from torch.fx import Node

from softipu.capture.update.moving_average import move_in_place, moved
from softipu.capture.update.rule import STEP, Group, Rule, Slot
from softipu.capture.update.spec import GroupSpec, OptimizerSpec
from softipu.capture.update.tape import Tape, aten


def _hyper(spec: OptimizerSpec, group: GroupSpec) -> Tuple[str, ...]:
    names = ["lr", "alpha", "eps"]
    if group.momentum:
        names.append("momentum")
    if group.weight_decay:
        names.append("weight_decay")
    return tuple(names)


def _slots(spec: OptimizerSpec, group: GroupSpec) -> Tuple[Slot, ...]:
    slots = [Slot("Accl1", "square_avg", spec.first_order_type, initial=1.0 if spec.use_tf_variant else 0.0)]
    if spec.centered:
        slots.append(Slot("Accl2", "grad_avg", spec.second_order_type))
    if group.momentum:
        slots.append(Slot("Accl3", "momentum_buffer"))
    # The count changes no number: it is there for checkpoints, where torch writes it.
    return tuple(slots) + (STEP,)


def _fused(tape: Tape, spec: OptimizerSpec, flags: GroupSpec, group: Group) -> None:
    w, g, hyper = group.parameters, group.gradients, group.hyper
    s = group.states["Accl1"]
    rest = tape.call(operator.sub, 1.0, hyper["alpha"])
    minus_lr = tape.call(operator.neg, hyper["lr"])
    tape.call(aten._foreach_add_.Scalar, group.states[STEP.prefix], 1)
    if flags.weight_decay:
        tape.call(aten._foreach_add_.List, g, w, alpha=hyper["weight_decay"])
    tape.call(aten._foreach_mul_.Scalar, s, hyper["alpha"])
    tape.call(aten._foreach_addcmul_.Scalar, s, g, g, rest)
    if spec.centered:
        move_in_place(tape, spec.rule, group.states["Accl2"], g, hyper["alpha"])
    if flags.momentum:
        tape.call(aten._foreach_mul_.Scalar, group.states["Accl3"], hyper["momentum"])
    # Both the gradient and the root are needed at the end, so a new tensor is; one parameter after the other they share its memory.
    for i in range(len(w)):
        root = _root(tape, spec, group, i)
        if not flags.momentum:
            tape.call(aten.addcdiv_.default, w[i], g[i], root, value=minus_lr)
        else:
            tape.call(aten.addcdiv_.default, group.states["Accl3"][i], g[i], root, value=hyper["lr"] if spec.use_tf_variant else 1)
    if flags.momentum and spec.use_tf_variant:
        tape.call(aten._foreach_sub_.List, w, group.states["Accl3"])
    elif flags.momentum:
        tape.call(aten._foreach_add_.List, w, group.states["Accl3"], alpha=minus_lr)


def _root(tape: Tape, spec: OptimizerSpec, group: Group, i: int) -> Node:
    """What parameter ``i``'s gradient is divided by."""
    variance, eps = group.states["Accl1"][i], group.hyper["eps"]
    if spec.centered:
        a = group.states["Accl2"][i]
        variance = tape.call(aten.addcmul.default, variance, a, a, value=-1)
    if spec.use_tf_variant:
        return tape.call(aten.sqrt_.default, tape.call(aten.add.Scalar, variance, eps))
    return tape.call(aten.add_.Scalar, tape.call(aten.sqrt.default, variance), eps)


def _elementwise(tape: Tape, spec: OptimizerSpec, flags: GroupSpec, group: Group) -> None:
    hyper = group.hyper
    rest = tape.call(aten.rsub.Scalar, hyper["alpha"], 1)
    squares, steps = group.states["Accl1"], group.states[STEP.prefix]
    for i, (w, g) in enumerate(zip(group.parameters, group.gradients)):
        steps[i] = tape.call(aten.add.Scalar, steps[i], 1)
        if flags.weight_decay:
            g = tape.call(aten.add.Tensor, g, tape.call(aten.mul.Tensor, w, hyper["weight_decay"]))
        pushed = tape.call(aten.mul.Tensor, tape.call(aten.mul.Tensor, g, g), rest)
        variance = squares[i] = tape.call(aten.add.Tensor, tape.call(aten.mul.Tensor, squares[i], hyper["alpha"]), pushed)
        if spec.centered:
            averages = group.states["Accl2"]
            a = averages[i] = moved(tape, spec.rule, averages[i], g, hyper["alpha"], rest)
            variance = tape.call(aten.sub.Tensor, variance, tape.call(aten.mul.Tensor, a, a))
        if spec.use_tf_variant:
            root = tape.call(aten.sqrt.default, tape.call(aten.add.Tensor, variance, hyper["eps"]))
        else:
            root = tape.call(aten.add.Tensor, tape.call(aten.sqrt.default, variance), hyper["eps"])
        change = tape.call(aten.div.Tensor, g, root)
        if spec.use_tf_variant or not flags.momentum:
            change = tape.call(aten.mul.Tensor, change, hyper["lr"])
        if flags.momentum:
            buffers = group.states["Accl3"]
            kept = tape.call(aten.mul.Tensor, buffers[i], hyper["momentum"])
            change = buffers[i] = tape.call(aten.add.Tensor, kept, change)
            if not spec.use_tf_variant:
                change = tape.call(aten.mul.Tensor, change, hyper["lr"])
        group.parameters[i] = tape.call(aten.sub.Tensor, w, change)


RMSPROP = Rule(hyper=_hyper, slots=_slots, fused=_fused, elementwise=_elementwise)
