"""Work and memory of weight updates."""

import pytest
import torch

from softipu.capture.update import GroupSpec, OptimizerSpec
from softipu.cost.update_work import accumulator_bytes, gradient_bytes, state_bytes, update_work
from softipu.cost.workload import Parameter
from softipu.ops import VectorOp

WEIGHT = Parameter("w", 1000, 2, 0)


def spec(rule, *, half_state=False, momentum=False, combined=False):
    group = GroupSpec(("w",), (0,), weight_decay=True, momentum=momentum, decoupled=rule == "AdamW")
    first = torch.float16 if half_state else torch.float32
    return OptimizerSpec(rule, (group,), accum_type=torch.float16, first_order_type=first, use_combined_accum=combined)


@pytest.mark.parametrize(("rule", "half_state", "expected"), [("AdamW", False, 8000), ("AdamW", True, 6000), ("LAMB", False, 8000)])
def test_adam_keeps_two_moments(rule, half_state, expected):
    assert state_bytes(spec(rule, half_state=half_state), WEIGHT) == expected


def test_plain_sgd_keeps_nothing():
    assert state_bytes(spec("SGD"), WEIGHT) == 0
    assert state_bytes(spec("SGD", momentum=True), WEIGHT) == 4000


def test_accumulators_have_their_own_type_and_may_share_the_velocity():
    assert accumulator_bytes(spec("AdamW"), WEIGHT) == 2000
    assert accumulator_bytes(spec("SGD", momentum=True, combined=True), WEIGHT) == 0
    assert gradient_bytes(spec("SGD", momentum=True, combined=True), WEIGHT) == 2000


def test_work_is_proportional_to_the_elements():
    one, two = (dict(update_work(spec("AdamW"), [Parameter("w", n, 2, 0)]).vector) for n in (1000, 2000))
    assert {kind: 2 * n for kind, n in one.items()} == pytest.approx(two)
    assert one[VectorOp.SQRT] == pytest.approx(1000, rel=1e-3)


def test_lamb_takes_two_norms_more_than_adam():
    lamb, adam = (dict(update_work(spec(rule), [WEIGHT]).vector) for rule in ("LAMB", "AdamW"))
    assert lamb[VectorOp.REDUCE] == pytest.approx(2000, rel=1e-3)
    assert VectorOp.REDUCE not in adam


def test_every_tensor_takes_its_own_rounds():
    one = update_work(spec("AdamW"), [WEIGHT])
    assert update_work(spec("AdamW"), [WEIGHT, WEIGHT]).n_supersteps == 2 * one.n_supersteps
