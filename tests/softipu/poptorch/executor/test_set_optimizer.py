"""setOptimizer takes the optimizer's numbers as they are now, and keeps the state while the kind of optimizer stays."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from softipu import poptorch


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        return F.mse_loss(self.linear(x), x[:, :2])


def both():
    torch.manual_seed(0)
    host = Net()
    return host, copy.deepcopy(host), torch.randn(20, 8, 3, generator=torch.Generator().manual_seed(1))


def host_step(model, optimizer, x):
    optimizer.zero_grad()
    model(x).backward()
    optimizer.step()


def test_numbers_hold_until_the_next_set_optimizer():
    host, device, batches = both()
    theirs, ours = (torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (host, device))
    executor = poptorch.trainingModel(device, None, ours)
    for i, x in enumerate(batches):
        if i == 10:
            ours.param_groups[0]["lr"] = 100.0  # not set: never reaches the device
        if i == 15:
            ours.param_groups[0].update(lr=0.02, momentum=0.5)
            theirs.param_groups[0].update(lr=0.02, momentum=0.5)
            executor.setOptimizer(ours)
        executor(x)
        host_step(host, theirs, x)
    torch.testing.assert_close(device.linear.weight.detach(), host.linear.weight.detach())


@pytest.mark.parametrize(
    "second",
    [
        lambda p: torch.optim.RMSprop(p, lr=0.01),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.AdamW(p, lr=0.01),
    ],
    ids=["rmsprop", "sgd", "adamw"],
)
def test_another_kind_of_optimizer_begins_with_a_new_state(second):
    host, device, batches = both()
    theirs, ours = (torch.optim.Adam(m.parameters(), lr=0.05) for m in (host, device))
    executor = poptorch.trainingModel(device, None, ours)
    for i, x in enumerate(batches):
        if i == 10:
            theirs, ours = second(host.parameters()), second(device.parameters())
            executor.setOptimizer(ours)
        executor(x)
        host_step(host, theirs, x)
    torch.testing.assert_close(device.linear.weight.detach(), host.linear.weight.detach(), rtol=1e-5, atol=1e-6)


def test_momentum_switched_on_later():
    host, device, batches = both()
    theirs, ours = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (host, device))
    executor = poptorch.trainingModel(device, None, ours)
    for i, x in enumerate(batches):
        if i == 10:
            for optimizer in (theirs, ours):
                optimizer.param_groups[0]["momentum"] = 0.9
            executor.setOptimizer(ours)
        executor(x)
        host_step(host, theirs, x)
    torch.testing.assert_close(device.linear.weight.detach(), host.linear.weight.detach())


def test_the_state_moves_between_executors_through_state_dict():
    host, device, batches = both()
    twin = copy.deepcopy(device)
    straight = poptorch.trainingModel(host, None, poptorch.optim.AdamW(host.parameters(), lr=0.05))
    for x in batches:
        straight(x)
    first = poptorch.optim.AdamW(device.parameters(), lr=0.05)
    executor = poptorch.trainingModel(device, None, first)
    for x in batches[:10]:
        executor(x)
    twin.load_state_dict(device.state_dict())
    second = poptorch.optim.AdamW(twin.parameters(), lr=0.05)
    second.load_state_dict(first.state_dict())
    resumed = poptorch.trainingModel(twin, None, second)
    for x in batches[10:]:
        resumed(x)
    assert torch.equal(twin.linear.weight, host.linear.weight)
