"""The public classes: PopTorch's signatures and defaults on top of whatever torch is installed."""

import inspect
import logging

import pytest
import torch

from softipu.poptorch import optim

SIGNATURES = {
    optim.SGD: "params lr momentum dampening weight_decay nesterov maximize foreach differentiable loss_scaling velocity_scaling "
    "use_combined_accum accum_type velocity_accum_type max_grad_norm",
    optim.Adam: "params lr betas eps weight_decay amsgrad foreach maximize capturable differentiable fused loss_scaling accum_type "
    "first_order_momentum_accum_type second_order_momentum_accum_type max_grad_norm",
    optim.AdamW: "params lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused loss_scaling bias_correction "
    "accum_type first_order_momentum_accum_type second_order_momentum_accum_type max_grad_norm",
    optim.RMSprop: "params lr alpha eps weight_decay momentum centered foreach maximize differentiable loss_scaling accum_type "
    "first_order_momentum_accum_type second_order_momentum_accum_type use_tf_variant",
    optim.LAMB: "params lr betas eps weight_decay bias_correction loss_scaling max_weight_norm accum_type "
    "first_order_momentum_accum_type second_order_momentum_accum_type",
}
CLASSES = list(SIGNATURES)
each_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


def _weights():
    return [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(3))]


@each_class
def test_arguments_stand_in_poptorchs_order_and_default_to_none(cls):
    arguments = inspect.signature(cls).parameters
    assert list(arguments) == SIGNATURES[cls].split()
    required = {name for name, argument in arguments.items() if argument.default is inspect.Parameter.empty}
    assert required == ({"params", "lr"} if cls is optim.SGD else {"params"})
    assert all(argument.default is None for name, argument in arguments.items() if name not in required)


@pytest.mark.parametrize("cls", CLASSES[:4], ids=lambda cls: cls.__name__)
def test_group_values_are_torchs_own_defaults(cls):
    ours, torchs = cls(_weights(), lr=0.1), getattr(torch.optim, cls.__name__)(_weights(), lr=0.1)
    assert isinstance(ours, type(torchs))
    assert isinstance(ours, optim.Optimizer)
    assert ours.defaults == torchs.defaults
    keys = [key for key in torchs.param_groups[0] if key != "params"]
    assert {key: ours.param_groups[0][key] for key in keys} == {key: torchs.param_groups[0][key] for key in keys}


def test_lamb_defaults():
    optimizer = optim.LAMB(_weights())
    assert optimizer.defaults == {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2, "max_weight_norm": 65500.0}
    assert (optimizer.bias_correction, optimizer.max_weight_norm) == (True, 65500.0)


@each_class
def test_attributes_of_the_device_have_poptorchs_defaults(cls):
    optimizer = cls(_weights(), lr=0.1)
    assert optimizer.loss_scaling == 1.0
    assert optimizer.accum_type == torch.float32
    if cls is optim.SGD:
        assert (optimizer.velocity_accum_type, optimizer.use_combined_accum) == (torch.float32, False)
    else:
        assert optimizer.first_order_momentum_accum_type == optimizer.second_order_momentum_accum_type == torch.float32
    assert getattr(optimizer, "max_grad_norm", float("inf")) == float("inf")
    assert getattr(optimizer, "use_tf_variant", False) is False
    assert getattr(optimizer, "bias_correction", True) is True


@each_class
def test_arguments_reach_torch_and_the_attributes(cls):
    names = SIGNATURES[cls].split()
    values = {
        "lr": 0.25,
        "weight_decay": 0.125,
        "loss_scaling": 8.0,
        "max_grad_norm": 3.0,
        "accum_type": torch.float16,
        "velocity_accum_type": torch.float16,
        "first_order_momentum_accum_type": torch.float16,
        "second_order_momentum_accum_type": torch.float16,
        "use_tf_variant": True,
        "bias_correction": False,
        "momentum": 0.5,
        "betas": (0.5, 0.75),
        "max_weight_norm": 7.0,
    }
    values = {name: value for name, value in values.items() if name in names}
    optimizer = cls(_weights(), **values)
    for name, value in values.items():
        assert optimizer.param_groups[0].get(name, getattr(optimizer, name, None)) == value


@each_class
@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16, "half"])
def test_accumulators_are_half_or_float(cls, kind):
    name = [argument for argument in SIGNATURES[cls].split() if argument.endswith("accum_type")][-1]
    with pytest.raises(AssertionError, match=f"Accumulation types must be either torch.float32 or torch.float16, not {kind}"):
        cls(_weights(), lr=0.1, **{name: kind})


@each_class
def test_groups_keep_their_own_values(cls):
    first, second = _weights()
    optimizer = cls([{"params": [first], "lr": 0.5, "weight_decay": 0.0}, {"params": [second]}], lr=0.1, weight_decay=0.25)
    assert [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups] == [(0.5, 0.0), (0.1, 0.25)]


def test_velocity_scaling_is_a_value_of_groups_with_combined_accumulators():
    first, second = _weights()
    groups = [{"params": [first], "velocity_scaling": 4.0}, {"params": [second]}]
    optimizer = optim.SGD(groups, lr=0.1, velocity_scaling=2.0, use_combined_accum=True)
    assert [group["velocity_scaling"] for group in optimizer.param_groups] == [4.0, 2.0]


def test_velocity_scaling_of_separate_accumulators_is_ignored_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING, logger="poptorch::python"):
        optimizer = optim.SGD(_weights(), lr=0.1, velocity_scaling=2.0)
    assert "velocity_scaling=2.0 is ignored: with use_combined_accum=False" in caplog.text
    assert "velocity_scaling" not in optimizer.param_groups[0]


def test_what_was_given_is_variable_and_the_rest_constant():
    attributes = optim.SGD(_weights(), lr=0.1, momentum=0.0, loss_scaling=2.0).variable_attrs
    assert [attributes.isConstant(name) for name in ("lr", "momentum", "loss_scaling", "weight_decay")] == [False, False, False, True]
    attributes.markAsConstant("momentum")
    attributes.markAsVariable("weight_decay")
    attributes.markAsVariable("weight_decay")
    assert [attributes.isConstant(name) for name in ("momentum", "weight_decay")] == [True, False]
    attributes.markAsConstant("weight_decay")
    assert attributes.isConstant("weight_decay")


@pytest.mark.parametrize("mark", ["markAsConstant", "markAsVariable"])
def test_unknown_attributes_cannot_be_marked(mark):
    attributes = optim.LAMB(_weights()).variable_attrs
    with pytest.raises(AssertionError, match="Unknown attribute momentum, allowed values: .*'max_weight_norm', 'loss_scaling'"):
        getattr(attributes, mark)("momentum")


@pytest.mark.parametrize("cls", CLASSES[:4], ids=lambda cls: cls.__name__)
def test_step_on_the_host_is_torchs(cls):
    pairs = [factory([torch.nn.Parameter(torch.tensor([1.0, -2.0]))], lr=0.1) for factory in (cls, getattr(torch.optim, cls.__name__))]
    for _ in range(3):
        for optimizer in pairs:
            (weight,) = optimizer.param_groups[0]["params"]
            weight.grad = torch.tensor([0.5, 2.0])
            optimizer.step()
    ours, torchs = (optimizer.param_groups[0]["params"][0] for optimizer in pairs)
    assert torch.equal(ours, torchs)


def test_lamb_on_the_host_returns_the_loss_of_a_closure_with_gradients():
    (weight, _) = _weights()
    optimizer = optim.LAMB([weight], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (weight**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2.0
    assert not torch.equal(weight, torch.ones(2))
