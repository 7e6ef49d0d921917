"""What happens to gradients before the rule: un-scaling and clipping by their global norm."""

from typing import List

from torch.fx import Node

from softipu.capture.update.tape import Tape, aten

_TOO_SMALL = 1e-6
"""torch.nn.utils.clip_grad_norm_ adds this to the norm."""


def scale_in_place(tape: Tape, gradients: List[Node], factor: Node) -> None:
    """Multiplies every gradient by a Python float."""
    tape.call(aten._foreach_mul_.Scalar, gradients, factor)


def clip_in_place(tape: Tape, gradients: List[Node], max_norm: Node) -> None:
    """clip_grad_norm_ over all gradients together; ``max_norm`` is a Python float, infinity changes nothing."""
    norms = tape.items(tape.call(aten._foreach_norm.Scalar, gradients, 2), len(gradients))
    norm = _total(tape, norms)
    reciprocal = tape.call(aten.reciprocal.default, tape.call(aten.add.Scalar, norm, _TOO_SMALL))
    factor = tape.call(aten.clamp.default, tape.call(aten.mul.Scalar, reciprocal, max_norm), None, 1.0)
    tape.call(aten._foreach_mul_.Scalar, gradients, tape.number(factor))


def scaled(tape: Tape, gradients: List[Node], factor: Node) -> List[Node]:
    """The gradients times a 0-d tensor."""
    return [tape.call(aten.mul.Tensor, g, factor) for g in gradients]


def clipped(tape: Tape, gradients: List[Node], max_norm: Node) -> List[Node]:
    """The gradients after clip_grad_norm_; ``max_norm`` is a 0-d tensor."""
    norm = _total(tape, [tape.call(aten.linalg_vector_norm.default, g) for g in gradients])
    room = tape.call(aten.add.Scalar, norm, _TOO_SMALL)
    factor = tape.call(aten.clamp.default, tape.call(aten.div.Tensor, max_norm, room), None, 1.0)
    return scaled(tape, gradients, factor)


def _total(tape: Tape, norms: List[Node]) -> Node:
    return tape.call(aten.linalg_vector_norm.default, tape.call(aten.stack.default, norms))
