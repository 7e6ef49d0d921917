"""torch.utils.checkpoint inside a step: the weights of eager torch, and one warning."""

import copy
import functools
import logging

import pytest
import torch
import torch.utils.checkpoint
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from softipu import poptorch
from softipu.errors import Error

WAYS = {
    "reentrant": functools.partial(checkpoint, use_reentrant=True),
    "not reentrant": functools.partial(checkpoint, use_reentrant=False),
    "sequential": lambda body, x: checkpoint_sequential(body, 2, x, use_reentrant=False),
}


class Net(nn.Module):
    def __init__(self, way):
        super().__init__()
        self.way = way
        self.first, self.body, self.last = nn.Linear(4, 5), nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5)), nn.Linear(5, 3)

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.last(WAYS[self.way](self.body, self.first(x))), y)


@pytest.mark.parametrize("way", WAYS)
def test_weights_are_those_of_eager_torch(way, caplog):
    torch.manual_seed(0)
    expected, x, y = Net(way), torch.randn(6, 4), torch.randint(0, 3, (6,))
    model = copy.deepcopy(expected)
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.5)
    options = poptorch.Options()
    options.Training.gradientAccumulation(3)
    executor = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.5))
    with caplog.at_level(logging.WARNING, "softipu"):
        for _ in range(3):
            optimizer.zero_grad()
            expected(x, y).backward()
            optimizer.step()
            executor(x, y)
    for got, wanted in zip(model.parameters(), expected.parameters()):
        torch.testing.assert_close(got.detach(), wanted.detach(), rtol=1e-5, atol=1e-6)
    told = [r.getMessage() for r in caplog.records if "torch.utils.checkpoint" in r.getMessage()]
    assert len(told) == 1 and "test_checkpoints.py" in told[0]


def test_checkpoints_work_eagerly_afterwards():
    model = Net("reentrant")
    executor = poptorch.inferenceModel(copy.deepcopy(model))
    x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
    executor(x, y)
    assert isinstance(torch.utils.checkpoint.CheckpointFunction, type)
    model(x, y).backward()
    assert all(p.grad is not None for p in model.parameters())


class BackwardInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, body):
        ctx.body = body
        ctx.save_for_backward(x)
        return body(x).detach()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.body(x)
        torch.autograd.backward([y], [gradient])
        return x.grad, None


def test_a_backward_pass_inside_the_step_is_refused_by_the_names_of_its_weights():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.body = nn.Linear(4, 5), nn.Linear(5, 3)

        def forward(self, x, y):
            return nn.functional.cross_entropy(BackwardInBackward.apply(self.first(x), self.body), y)

    model = Own()
    executor = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(Error, match=r"backward\(\) is called inside the step and adds to the gradients of body.weight, body.bias"):
        executor(torch.randn(6, 4), torch.randint(0, 3, (6,)))
