"""From torch.optim to the device's optimizers, and their state back."""

import types

import pytest
import torch

from lightning_ipu import poptorch
from lightning_ipu._lightning import Lightning
from lightning_ipu.updates import optimizer_state, optimizers

LIGHTNING = Lightning("lightning.pytorch")


@pytest.fixture
def weight():
    return torch.nn.Parameter(torch.ones(3))


def trainer(value=None, algorithm=None):
    return types.SimpleNamespace(gradient_clip_val=value, gradient_clip_algorithm=algorithm)


MAKERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 0.9)),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.1, centered=True, momentum=0.5),
    "LAMB": lambda p: poptorch.optim.LAMB(p, lr=0.1, max_weight_norm=3.0),
}


@pytest.mark.parametrize("rule", MAKERS)
def test_the_device_gets_the_same_rule_and_numbers(rule, weight):
    own = MAKERS[rule]([weight])
    assert optimizers.rule_of(own) == rule
    made = optimizers.device_optimizer(poptorch, own, {}, None)
    assert type(made) is getattr(poptorch.optim, rule)
    for key, value in made.param_groups[0].items():
        if key in own.param_groups[0] and key != "params":
            assert value == own.param_groups[0][key], key


def test_a_subclass_without_its_own_step_is_the_stock_rule(weight):
    class Mine(torch.optim.AdamW):
        pass

    assert optimizers.rule_of(Mine([weight])) == "AdamW"
    optimizers.refuse_unsupported([Mine([weight])], LIGHTNING)


def test_what_the_user_gave_poptorch_is_kept(weight):
    own = poptorch.optim.SGD([weight], lr=0.1, loss_scaling=64.0, max_grad_norm=2.0)
    made = optimizers.device_optimizer(poptorch, own, {}, None)
    assert (made.loss_scaling, made.max_grad_norm) == (64.0, 2.0)


def test_gradient_clip_val_is_the_devices_norm(weight):
    assert optimizers.device_optimizer(poptorch, MAKERS["Adam"]([weight]), {}, 0.5).max_grad_norm == 0.5


def test_new_numbers_reach_the_device(weight):
    own = torch.optim.Adam([weight], lr=0.1)
    made = optimizers.device_optimizer(poptorch, own, {}, None)
    before = optimizers.numbers_of(own)
    own.param_groups[0].update(lr=torch.tensor(0.5), betas=(0.7, 0.999))
    assert optimizers.numbers_of(own) != before
    optimizers.bring_up_to_date(made, own)
    assert (made.param_groups[0]["lr"], made.param_groups[0]["betas"]) == (0.5, (0.7, 0.999))


def test_dampening_without_momentum_does_nothing_as_in_torch(weight):
    made = optimizers.device_optimizer(poptorch, torch.optim.SGD([weight], lr=0.1, dampening=0.5), {}, None)
    assert made.param_groups[0]["dampening"] == 0.0


class SignSGD(torch.optim.SGD):
    def step(self, closure=None):
        """Another update."""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda w: [torch.optim.SGD([w], lr=0.1), torch.optim.SGD([w], lr=0.1)], "configure_optimizers returned 2"),
        (lambda w: [torch.optim.LBFGS([w])], "no rule for the optimizer torch.optim.lbfgs.LBFGS"),
        (lambda w: [SignSGD([w], lr=0.1)], "SignSGD overrides step"),
        (lambda w: [torch.optim.Adam([w], amsgrad=True)], "amsgrad=True"),
        (lambda w: [torch.optim.SGD([w], lr=0.1, maximize=True)], "maximize=True"),
    ],
)
def test_what_no_device_does_is_refused(make, message, weight):
    with pytest.raises(Exception, match=message):
        optimizers.refuse_unsupported(make(weight), LIGHTNING)


@pytest.mark.parametrize("rule", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_state_survives_the_way_to_the_device_and_back(rule, weight):
    own = MAKERS[rule]([weight])
    for _ in range(3):
        weight.grad = torch.randn(3)
        own.step()
    expected = own.state_dict()["state"]
    state = optimizer_state.from_torch(own)
    names = {id(weight): "module.weight"}
    again = optimizer_state.from_device(optimizer_state.for_device(state, names), names)
    fresh = MAKERS[rule]([weight])
    optimizer_state.to_torch(again, fresh)
    got = fresh.state_dict()["state"]
    assert sorted(got[0]) == sorted(key for key, value in expected[0].items() if value is not None)
    for key, value in got[0].items():
        assert torch.equal(torch.as_tensor(value), torch.as_tensor(expected[0][key])), key
        assert type(value) is type(expected[0][key])


def test_a_parameter_that_was_never_updated_has_no_state(weight):
    own = torch.optim.Adam([weight])
    ids = id(weight)
    optimizer_state.to_torch({("Accl1", ids): torch.zeros(3), ("Accl2", ids): torch.zeros(3), ("Step", ids): torch.zeros(())}, own)
    assert own.state_dict()["state"] == {}
