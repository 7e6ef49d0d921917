"""Kernels that leave their results in memory otherwise than the capture took them to be must not change numbers."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from softipu import poptorch
from tests.softipu.small_models import OPTIMIZERS


class Transposed(nn.Module):
    """The gradient of the loss is contiguous where PyTorch's shape functions promise the layout of its input."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))

    def forward(self, target):
        return F.mse_loss(self.weight.t(), target)


class ViewOfGradient(nn.Module):
    """The backward pass of attention views a gradient whose layout is another."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(2, 2, batch_first=True)

    def forward(self, x):
        y = self.attention(x, x, x, need_weights=False)[0].tanh()
        return F.mse_loss(y, torch.full_like(y, 0.5))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("make", "shape"), [(Transposed, (4, 3)), (ViewOfGradient, (2, 3, 2))])
def test_weights_are_those_of_eager_torch(optimizer, make, shape):
    torch.manual_seed(0)
    expected = make()
    model = copy.deepcopy(expected)
    x = torch.randn(shape)
    eager = OPTIMIZERS[optimizer](expected.parameters())
    executor = poptorch.trainingModel(model, optimizer=OPTIMIZERS[optimizer](model.parameters()))
    for _ in range(3):
        eager.zero_grad()
        expected(x).backward()
        eager.step()
        executor(x)
    for got, wanted in zip(model.parameters(), expected.parameters()):
        torch.testing.assert_close(got.detach(), wanted.detach(), rtol=1e-5, atol=1e-6)
