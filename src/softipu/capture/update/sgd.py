"""Stochastic gradient descent with momentum, as torch.optim.SGD computes it.

    g = gradient + weight_decay * w
    v = g                                   in the first update
    v = momentum * v + (1 - dampening) * g  later
    w = w - lr * (g + momentum * v   if nesterov else   v)

The first update is undamped as in torch; the velocity starts at zero, so only a rule with dampening has to count steps.
"""

import operator
from typing import Tuple

import torch

from softipu.capture.update.kernels import has_fused
from softipu.capture.update.rule import STEP, Group, Rule, Slot
from softipu.capture.update.spec import GroupSpec, OptimizerSpec
from softipu.capture.update.tape import Tape, aten


def _hyper(spec: OptimizerSpec, group: GroupSpec) -> Tuple[str, ...]:
    names = ["lr"]
    if group.momentum:
        names.append("momentum")
    if group.dampening:
        names.append("dampening")
    if group.weight_decay:
        names.append("weight_decay")
    return tuple(names)


def _velocity(spec: OptimizerSpec) -> Slot:
    # PopART calls the tensor that is gradient accumulator and velocity at once Accl, and a velocity of its own Accl1.
    return Slot("Accl" if spec.use_combined_accum else "Accl1", "momentum_buffer", spec.first_order_type)


def _slots(spec: OptimizerSpec, group: GroupSpec) -> Tuple[Slot, ...]:
    if not group.momentum:
        return ()
    return (_velocity(spec), STEP) if group.dampening else (_velocity(spec),)


def _fused(tape: Tape, spec: OptimizerSpec, flags: GroupSpec, group: Group) -> None:
    w, g, hyper = group.parameters, group.gradients, group.hyper
    v = group.states[_velocity(spec).prefix] if flags.momentum else []
    if has_fused("_fused_sgd_") and not flags.dampening:
        tape.call(
            aten._fused_sgd_.default,
            w,
            g,
            v,
            weight_decay=hyper.get("weight_decay", 0.0),
            momentum=hyper.get("momentum", 0.0),
            lr=hyper["lr"],
            dampening=0.0,
            nesterov=flags.nesterov,
            maximize=False,
            is_first_step=False,
        )
        return
    minus_lr = tape.call(operator.neg, hyper["lr"])
    if flags.weight_decay:
        tape.call(aten._foreach_add_.List, g, w, alpha=hyper["weight_decay"])
    if not flags.momentum:
        tape.call(aten._foreach_add_.List, w, g, alpha=minus_lr)
        return
    tape.call(aten._foreach_mul_.Scalar, v, hyper["momentum"])
    if flags.dampening:
        steps = group.states[STEP.prefix]
        n_done = tape.call(aten.stack.default, steps)
        damped = tape.call(aten.mul.Tensor, tape.call(aten.gt.Scalar, n_done, 0), hyper["dampening"])
        factors = tape.call(aten.rsub.Scalar, tape.call(aten._to_copy.default, damped, dtype=torch.float64), 1.0)
        tape.call(aten._foreach_mul_.ScalarList, g, tape.numbers(factors))
        tape.call(aten._foreach_add_.Scalar, steps, 1)
    tape.call(aten._foreach_add_.List, v, g)
    if flags.nesterov:
        tape.call(aten._foreach_add_.List, g, v, alpha=hyper["momentum"])
        tape.call(aten._foreach_add_.List, w, g, alpha=minus_lr)
    else:
        tape.call(aten._foreach_add_.List, w, v, alpha=minus_lr)


def _elementwise(tape: Tape, spec: OptimizerSpec, flags: GroupSpec, group: Group) -> None:
    hyper = group.hyper
    undamped = tape.call(aten.rsub.Scalar, hyper["dampening"], 1) if flags.dampening else None
    for i, (w, g) in enumerate(zip(group.parameters, group.gradients)):
        if flags.weight_decay:
            g = tape.call(aten.add.Tensor, g, tape.call(aten.mul.Tensor, w, hyper["weight_decay"]))
        if flags.momentum:
            velocities = group.states[_velocity(spec).prefix]
            v = tape.call(aten.mul.Tensor, velocities[i], hyper["momentum"])
            pushed = g
            if flags.dampening:
                steps = group.states[STEP.prefix]
                factor = tape.call(aten.where.ScalarOther, tape.call(aten.gt.Scalar, steps[i], 0), undamped, 1.0)
                pushed = tape.call(aten.mul.Tensor, g, factor)
                steps[i] = tape.call(aten.add.Scalar, steps[i], 1)
            v = velocities[i] = tape.call(aten.add.Tensor, v, pushed)
            g = tape.call(aten.add.Tensor, g, tape.call(aten.mul.Tensor, v, hyper["momentum"])) if flags.nesterov else v
        group.parameters[i] = tape.call(aten.sub.Tensor, w, tape.call(aten.mul.Tensor, g, hyper["lr"]))


SGD = Rule(hyper=_hyper, slots=_slots, fused=_fused, elementwise=_elementwise)
