"""Half precision weights and accumulators: arithmetic in float32, storage as asked for."""

import pytest
import torch

from softipu.capture.update import build_update, import_state, new_state, read_optimizer
from softipu.poptorch import optim

RULES = [
    lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.01),
    lambda p: torch.optim.AdamW(p, lr=0.01),
    lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True, eps=1e-3),
    lambda p: optim.LAMB(p, lr=0.01),
]
IDS = ["SGD", "Adam", "AdamW", "RMSprop", "LAMB"]


@pytest.mark.parametrize("make", RULES, ids=IDS)
def test_half_weights_follow_float32_arithmetic_rounded_once_per_update(side_by_side, form, make):
    pair = side_by_side(make, form=form)
    half = {name: t.half() for name, t in pair.device.items()}
    reference = side_by_side(make, {name: t.float() for name, t in half.items()}, form=form)
    low = side_by_side(make, half, form=form)
    for _ in range(10):
        gradients = low.gradients()
        low.step_device(gradients)
        reference.step_device({name: g.float() for name, g in gradients.items()})
        for weight in reference.device.values():  # the next update starts from the rounded weight
            weight.copy_(weight.half())
    for name in half:
        assert low.device[name].dtype == torch.float16
        assert torch.equal(low.device[name].float(), reference.device[name])
    assert all(t.dtype == torch.float32 for t in low.state.values())


@pytest.mark.parametrize("make", RULES, ids=IDS)
def test_half_and_float_weights_in_one_group(side_by_side, form, make):
    named = {"a": torch.randn(3, 4), "b": torch.randn(4).half(), "c": torch.randn(2, dtype=torch.float64)}
    mixed = side_by_side(make, named, form=form)
    gradients = {name: torch.randn(t.shape).to(t.dtype) for name, t in named.items()}
    mixed.step_device(gradients)
    for name, t in named.items():
        alone = side_by_side(make, {name: t}, form=form)
        alone.step_device({name: gradients[name]})
        assert torch.equal(alone.device[name], mixed.device[name])
        assert not torch.equal(mixed.device[name], t)


@pytest.mark.parametrize("first", [torch.float16, torch.float32])
@pytest.mark.parametrize("second", [torch.float16, torch.float32])
@pytest.mark.parametrize("accum", [torch.float16, torch.float32])
def test_adam_stores_moments_in_the_types_asked_for(side_by_side, form, accum, first, second):
    pair = side_by_side(
        lambda p: optim.Adam(p, lr=0.01, accum_type=accum, first_order_momentum_accum_type=first, second_order_momentum_accum_type=second),
        form=form,
    )
    kinds = {name.split("___")[0]: t.dtype for name, t in pair.state.items()}
    assert kinds == {"Accl1": first, "Accl2": second, "Step": torch.float32}
    pair.step(20)
    assert {name.split("___")[0]: t.dtype for name, t in pair.state.items()} == kinds
    pair.check(1e-6 if torch.float16 not in (first, second) else 2e-2)


def test_half_velocity(side_by_side, form):
    pair = side_by_side(lambda p: optim.SGD(p, lr=0.01, momentum=0.9, velocity_accum_type=torch.float16), form=form)
    pair.step(20)
    assert all(t.dtype == torch.float16 for t in pair.state.values())
    pair.check(2e-2)


def test_half_gradients_of_float_weights_with_half_accumulators(form):
    w = {"a": torch.zeros(2)}
    spec = read_optimizer(optim.SGD(list(w.values()), lr=1.0, accum_type=torch.float16), w)
    update = build_update(spec, w, form=form)
    lr = torch.tensor(1.0, dtype=torch.float64) if form == "elementwise" else 1.0
    with torch.no_grad():
        update.graph_module(w["a"], torch.tensor([1.0, 2.0], dtype=torch.float16), lr)
    assert w["a"].tolist() == [-1.0, -2.0]


def test_states_of_float64_weights_are_float64():
    w = {"a": torch.zeros(2, dtype=torch.float64)}
    spec = read_optimizer(torch.optim.Adam(list(w.values())), w)
    state = new_state(build_update(spec, w), w)
    assert {name: t.dtype for name, t in state.items()} == {
        "Accl1___a": torch.float64,
        "Accl2___a": torch.float64,
        "Step___a": torch.float32,
    }


def test_a_half_state_of_the_host_becomes_float32_on_the_device():
    w = {"a": torch.ones(2, dtype=torch.float16, requires_grad=True)}
    optimizer = torch.optim.SGD(list(w.values()), lr=0.5, momentum=0.5)
    w["a"].grad = torch.ones(2, dtype=torch.float16)
    optimizer.step()
    state = import_state(build_update(read_optimizer(optimizer, w), w), optimizer)
    assert state["Accl1___a"].dtype == torch.float32
    assert state["Accl1___a"].tolist() == [1.0, 1.0]
