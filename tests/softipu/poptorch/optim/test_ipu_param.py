"""ipu_param: PopART's names and quantities, and back."""

import pytest
import torch

from softipu.capture.update import build_update, hyper_values, read_optimizer
from softipu.poptorch import optim
from softipu.poptorch.optim.ipu_param import numbers_to_param, param_to_numbers


def _numbers(optimizer, named):
    spec = read_optimizer(optimizer, named)
    update = build_update(spec, named)
    return spec, dict(zip(update.hyper, hyper_values(optimizer, spec)))


def _named():
    return {"model.lin.weight": torch.ones(2, requires_grad=True), "model.lin.bias": torch.ones(1, requires_grad=True)}


def test_plain_sgd_has_a_scaled_learning_rate_and_a_decay_factor():
    named = _named()
    spec, hyper = _numbers(optim.SGD(named.values(), lr=0.05, weight_decay=0.025, loss_scaling=0.75), named)
    param = numbers_to_param(spec, hyper, 0.75)
    assert sorted(param) == [
        "lossScaling_FLOAT",
        "scaledLearningRate0___specific___model.lin.bias",
        "scaledLearningRate0___specific___model.lin.weight",
        "weightDecayScaleFactor0___specific___model.lin.bias",
        "weightDecayScaleFactor0___specific___model.lin.weight",
    ]
    assert float(param["scaledLearningRate0___specific___model.lin.bias"]) == pytest.approx(0.05 / 0.75)
    assert float(param["weightDecayScaleFactor0___specific___model.lin.bias"]) == pytest.approx(1 - 0.05 * 0.025)
    assert float(param["lossScaling_FLOAT"]) == 0.75
    assert all(isinstance(value, torch.Tensor) and value.dtype == torch.float32 for value in param.values())


@pytest.mark.parametrize("cls", [optim.Adam, optim.AdamW, optim.RMSprop, optim.LAMB])
def test_the_others_have_learning_rate_and_decay_as_they_are(cls):
    named = _named()
    param = numbers_to_param(*_numbers(cls(named.values(), lr=0.05, weight_decay=0.025), named), 2.0)
    for name in named:
        assert float(param[f"learningRate___specific___{name}"]) == pytest.approx(0.05)
        assert float(param[f"weightDecay___specific___{name}"]) == pytest.approx(0.025)


CASES = {
    "SGD": lambda p: optim.SGD(p, lr=0.05, weight_decay=0.025),
    "SGD momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.25, weight_decay=0.025),
    "Adam": lambda p: optim.Adam(p, lr=0.05, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.025),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.05, momentum=0.5, alpha=0.9, weight_decay=0.025),
    "LAMB": lambda p: optim.LAMB(p, lr=0.05, max_weight_norm=7.0),
}


each_case = pytest.mark.parametrize("make", CASES.values(), ids=list(CASES))


@each_case
def test_numbers_come_back_from_their_entries(make):
    named = _named()
    spec, hyper = _numbers(make(list(named.values())), named)
    param = numbers_to_param(spec, hyper, 4.0)
    _, back, scaling = param_to_numbers(spec, param, dict.fromkeys(hyper, 0.123), 1.0)
    assert scaling == 4.0
    # 1 - lr * decay has the digits of a float32 near 1, so the decay comes back with an error of up to 2^-24 / lr.
    decay = back.pop("weight_decay_0")
    assert decay == pytest.approx(hyper.pop("weight_decay_0"), rel=2e-7, abs=2**-24 / 0.05)
    assert back == pytest.approx(hyper, rel=2e-7)


@each_case
def test_entries_that_say_nothing_new_cost_no_digits(make):
    named = _named()
    spec, hyper = _numbers(make(list(named.values())), named)
    assert param_to_numbers(spec, numbers_to_param(spec, hyper, 3.0), hyper, 3.0) == (spec, hyper, 3.0)


def test_numbers_without_an_entry_stay():
    named = _named()
    spec, hyper = _numbers(optim.Adam(named.values(), lr=0.05), named)
    same, back, scaling = param_to_numbers(spec, {f"learningRate___specific___{name}": torch.tensor(0.5) for name in named}, hyper, 8.0)
    assert same == spec
    assert back == {**hyper, "lr_0": 0.5}
    assert scaling == 8.0


def test_a_group_whose_parameters_got_different_numbers_becomes_several():
    named = {name: torch.ones(1, requires_grad=True) for name in "abc"}
    spec, hyper = _numbers(optim.Adam(named.values(), lr=0.05), named)
    entries = {"learningRate___specific___b": torch.tensor(0.5), "weightDecay___specific___b": torch.tensor(0.25)}
    split, back, _ = param_to_numbers(spec, entries, hyper, 1.0)
    assert [(group.parameters, group.positions, group.weight_decay) for group in split.groups] == [
        (("a", "c"), (0, 2), False),
        (("b",), (1,), True),
    ]
    assert (back["lr_0"], back["lr_1"], back["weight_decay_1"]) == (0.05, 0.5, 0.25)
    param = numbers_to_param(split, back, 1.0)
    assert [float(param[f"learningRate___specific___{name}"]) for name in "abc"] == pytest.approx([0.05, 0.5, 0.05])
    assert [float(param[f"weightDecay___specific___{name}"]) for name in "abc"] == [0.0, 0.25, 0.0]


def test_groups_are_told_apart_by_their_parameters():
    named = _named()
    groups = [{"params": [named["model.lin.weight"]], "lr": 0.5}, {"params": [named["model.lin.bias"]], "lr": 0.25}]
    spec, hyper = _numbers(optim.AdamW(groups), named)
    param = numbers_to_param(spec, hyper, 1.0)
    assert float(param["learningRate___specific___model.lin.weight"]) == 0.5
    assert float(param["learningRate___specific___model.lin.bias"]) == 0.25
    param["learningRate___specific___model.lin.bias"] = torch.tensor(0.125)
    _, back, _ = param_to_numbers(spec, param, hyper, 1.0)
    assert (back["lr_0"], back["lr_1"]) == (0.5, 0.125)
