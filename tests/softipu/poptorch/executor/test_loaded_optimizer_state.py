"""A state that an optimizer has loaded reaches the device at its next call, each parameter with its own numbers."""

import logging

import pytest
import torch
from torch import nn

from softipu import poptorch


class Sum(nn.Module):
    """The gradient of every weight is the sum of the rows."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return poptorch.identity_loss((self.a + self.b) * x, reduction="sum")


def _trained(make, n=1):
    module = Sum()
    optimizer = make(module.parameters())
    executor = poptorch.trainingModel(module, None, optimizer)
    for _ in range(n):
        executor(torch.ones(1))
    return module, optimizer, executor


def test_every_parameter_of_a_group_takes_its_own_number():
    module, optimizer, executor = _trained(lambda p: poptorch.optim.SGD(p, lr=0.5))
    state = optimizer.state_dict()
    state["ipu_param"]["scaledLearningRate0___specific___b"] = torch.tensor(2.0)
    optimizer.load_state_dict(state)
    executor(torch.ones(1))
    assert (module.a.item(), module.b.item()) == (-1.0, -2.5)  # -0.5 - 0.5 and -0.5 - 2
    read = optimizer.state_dict()["ipu_param"]
    assert {name[-1]: float(value) for name, value in read.items() if name.startswith("scaled")} == {"a": 0.5, "b": 2.0}
    executor.setOptimizer(optimizer)  # the group's number again
    executor(torch.ones(1))
    assert (module.a.item(), module.b.item()) == (-1.5, -3.0)


def test_momenta_stay_when_a_group_becomes_several():
    module, optimizer, executor = _trained(lambda p: poptorch.optim.SGD(p, lr=1.0, momentum=0.5, use_combined_accum=False))
    state = optimizer.state_dict()
    state["ipu_param"]["scaledMomentum2___specific___b"] = torch.tensor(0.0)
    optimizer.load_state_dict(state)
    executor(torch.ones(1))
    assert (module.a.item(), module.b.item()) == (-2.5, -2.0)  # velocities 0.5 * 1 + 1 and 1


@pytest.mark.parametrize("anew", [False, True], ids=["same executor", "another executor"])
def test_a_weight_decay_of_one_parameter_is_switched_on(anew):
    module, optimizer, executor = _trained(lambda p: poptorch.optim.SGD(p, lr=0.5))
    state = optimizer.state_dict()
    state["ipu_param"]["weightDecayScaleFactor0___specific___a"] = torch.tensor(0.5)
    if anew:
        executor.destroy()
        optimizer = poptorch.optim.SGD(module.parameters(), lr=0.5)
        executor = poptorch.trainingModel(module, None, optimizer)
    optimizer.load_state_dict(state)
    executor(torch.ones(1))
    assert (module.a.item(), module.b.item()) == (-0.75, -1.0)  # -0.5 * 0.5 - 0.5 and -0.5 - 0.5


def test_until_the_next_call_reading_shows_what_was_loaded():
    _, optimizer, executor = _trained(lambda p: poptorch.optim.Adam(p, lr=0.5))
    state = optimizer.state_dict()
    del state["ipu_state"]["Accl1___a"], state["ipu_param"]["learningRate___specific___a"]
    state["ipu_state"]["Accl1___b"] = torch.tensor([7.0])
    optimizer.load_state_dict(state)
    shown = optimizer.state_dict()
    assert "Accl1___a" not in shown["ipu_state"]
    assert shown["ipu_state"]["Accl1___b"].item() == 7.0
    executor(torch.ones(1))
    merged = optimizer.state_dict()
    assert merged["ipu_state"]["Accl1___a"].item() == pytest.approx(0.19)  # 0.9 * 0.1 + 0.1
    assert merged["ipu_state"]["Accl1___b"].item() == pytest.approx(6.4)  # 0.9 * 7 + 0.1
    assert float(merged["ipu_param"]["learningRate___specific___a"]) == 0.5


def test_weights_come_to_the_host_before_another_state_goes_to_the_device(caplog):
    _, optimizer, executor = _trained(lambda p: poptorch.optim.Adam(p, lr=0.5), n=2)
    optimizer.load_state_dict(optimizer.state_dict())
    with caplog.at_level(logging.DEBUG, logger="poptorch::python"):
        executor(torch.ones(1))
    lines = [record.getMessage() for record in caplog.records]
    assert lines.index("copyWeightsToHost()") < lines.index("Writing optimiser state tensors from host to IPU memory")


def test_a_number_that_is_set_after_loading_counts():
    module, optimizer, executor = _trained(lambda p: poptorch.optim.SGD(p, lr=0.5))
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.param_groups[0]["lr"] = 3.0
    executor.setOptimizer(optimizer)
    executor(torch.ones(1))
    assert module.a.item() == -3.5


@pytest.mark.parametrize("way", ["save", "destroy", "detach"])
def test_a_loaded_state_is_not_lost_when_the_device_goes_before_a_call(way, tmp_path):
    module, optimizer, executor = _trained(lambda p: poptorch.optim.Adam(p, lr=0.5))
    state = optimizer.state_dict()
    state["ipu_state"] = {"Accl1___b": torch.tensor([7.0])}
    optimizer.load_state_dict(state)
    if way == "save":
        executor.save(str(tmp_path / "m.poptorch"))
        executor.destroy()
        executor = poptorch.load(str(tmp_path / "m.poptorch"))
        executor(torch.ones(1))
        optimizer = executor._optimizer.optimizer
    elif way == "destroy":
        executor.destroy()
        executor = poptorch.trainingModel(module, None, optimizer)
        executor(torch.ones(1))
    else:
        executor.detachFromDevice()
        executor(torch.ones(1))
    merged = optimizer.state_dict()["ipu_state"]
    assert merged["Accl1___a"].item() == pytest.approx(0.19)
    assert merged["Accl1___b"].item() == pytest.approx(6.4)
