"""The debug lines that tell which numbers of an optimizer the device uses."""

import logging
import re

import pytest
import torch
from torch import nn

from softipu import poptorch


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return poptorch.identity_loss(self.linear(x), "sum")


X = torch.ones(1, 2)


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.DEBUG, logger="poptorch::python")
    caplog.clear()

    def read():
        found = [m for m in caplog.messages if "optimizer with" in m]
        caplog.clear()
        return found

    return read


def constant(line, name):
    (mark,) = re.findall(rf"\b{name}=[^ ,]+( \(const\))?", line)
    return bool(mark)


def test_torchs_defaults_are_constants_and_the_learning_rate_is_not(lines):
    model = Net()
    poptorch.trainingModel(model, optimizer=torch.optim.Adam(model.parameters(), lr=0.5, weight_decay=0.1)).compile(X)
    graph, group = lines()
    assert graph.startswith("Updating graph optimizer with Adam") and group.startswith("Updating group 0 optimizer with Adam")
    assert "defaultLearningRate=0.5," in graph and "learningRate=0.5," in group and "weightDecay=0.1," in group
    assert [constant(graph, f"default{n}") for n in ("Beta1", "Beta2", "Eps", "LearningRate", "WeightDecay")] == [True] * 3 + [False] * 2
    assert [constant(group, n) for n in ("beta1", "beta2", "eps", "learningRate", "weightDecay")] == [True] * 3 + [False] * 2


def test_arguments_of_poptorchs_optimizers_are_variable_unless_marked(lines):
    model = Net()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9, dampening=0.0)
    optimizer.variable_attrs.markAsConstant("dampening")
    poptorch.trainingModel(model, optimizer=optimizer).compile(X)
    _, group = lines()
    assert [constant(group, n) for n in ("learningRate", "momentum", "dampening", "weightDecay")] == [False, False, True, True]


@pytest.mark.parametrize("combined, expected", [(True, 3.0), (False, 2.0)])
def test_the_velocity_of_separate_accumulators_is_scaled_as_the_loss(lines, combined, expected):
    model = Net()
    scaling = {"velocity_scaling": 3.0} if combined else {}
    optimizer = poptorch.optim.SGD(model.parameters(), lr=1.0, loss_scaling=2.0, use_combined_accum=combined, **scaling)
    poptorch.trainingModel(model, optimizer=optimizer).compile(X)
    graph, group = lines()
    assert "lossScaling=2," in graph and f"defaultVelocityScaling={expected:g}" in graph and f"velocityScaling={expected:g}" in group


def test_accumulator_types_are_told(lines):
    model = Net()
    optimizer = poptorch.optim.Adam(
        model.parameters(), accum_type=torch.float16, first_order_momentum_accum_type=torch.float32, second_order_momentum_accum_type=None
    )
    poptorch.trainingModel(model, optimizer=optimizer).compile(X)
    graph = lines()[0]
    for text in ("accumType=float16", "firstOrderMomentumAccumType=float32", "secondOrderMomentumAccumType=float32"):
        assert text in graph


def test_only_a_change_is_told(lines):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    executor = poptorch.trainingModel(model, optimizer=optimizer)
    executor.compile(X)
    assert len(lines()) == 2
    executor.setOptimizer(poptorch.optim.SGD(model.parameters(), lr=0.1))
    assert not lines()
    optimizer.param_groups[0]["lr"] = 0.05
    executor.setOptimizer(optimizer)
    assert "learningRate=0.05," in lines()[1]


def test_moving_the_state_is_told(caplog):
    caplog.set_level(logging.DEBUG, logger="poptorch::python")
    model = Net()
    optimizer = poptorch.optim.Adam(model.parameters())
    executor = poptorch.trainingModel(model, optimizer=optimizer)
    executor(X)
    state = optimizer.state_dict()
    assert "Writing optimiser state tensors from IPU to host." in caplog.messages
    caplog.clear()
    optimizer.state_dict()
    assert caplog.messages == ["Using cached optimiser state dict"]
    optimizer.load_state_dict(state)
    executor(X)
    assert "Writing optimiser state tensors from host to IPU memory" in caplog.messages
    caplog.clear()
    executor.detachFromDevice()
    assert "Writing optimiser state tensors from IPU to host." in caplog.messages
