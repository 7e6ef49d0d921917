"""Kernels that leave their results in memory otherwise than the capture took them to be must not change numbers."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from softipu import poptorch
from softipu.runtime.interpreter import compile_graph
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


class NormBetweenRecurrent(nn.Module):
    """The kernel of a recurrent layer reads memory in order; the norm before it returns a layout of its own."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.LSTM(4, 4, batch_first=True), nn.BatchNorm1d(3), nn.LSTM(4, 4, batch_first=True)

    def forward(self, x):
        y = self.second(self.norm(self.first(x)[0]))[0]
        return F.mse_loss(y, torch.full_like(y, 0.5))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("make", "shape"), [(Transposed, (4, 3)), (ViewOfGradient, (2, 3, 2)), (NormBetweenRecurrent, (2, 3, 4))])
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


def test_values_lie_as_captured():
    torch.manual_seed(0)
    model = NormBetweenRecurrent()
    expected = copy.deepcopy(model)
    executor = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.0))
    x = torch.randn(2, 3, 4)
    for _ in range(3):  # the first call looks where values lie, the others know
        torch.testing.assert_close(executor(x), expected(x).detach(), rtol=1e-6, atol=1e-6)


def test_gelu_of_a_transposed_gradient():
    class Transposes(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 4))

        def forward(self, x, target):
            return F.mse_loss(F.gelu(x * self.weight).transpose(1, 2).reshape(2, 12), target)

    torch.manual_seed(0)
    model, x, target = Transposes(), torch.randn(2, 3, 4), torch.randn(2, 12)
    options = poptorch.Options()
    options.anchorTensor("gradient", "Gradient___weight")
    executor = poptorch.trainingModel(copy.deepcopy(model), options, torch.optim.SGD(model.parameters(), lr=0.1))
    executor(x, target)
    with torch.backends.mkldnn.flags(enabled=False):  # eager torch 2.0 is wrong here otherwise
        model(x, target).backward()
    torch.testing.assert_close(executor.getAnchoredTensor("gradient"), model.weight.grad, rtol=1e-5, atol=1e-6)


def test_constants_written_by_the_graph_keep_their_values():
    graph = torch.fx.Graph()
    x, count = graph.placeholder("x"), graph.get_attr("count")
    graph.output([graph.call_function(torch.add, (x, graph.call_method("add_", (count, 1))))])
    call = compile_graph(torch.fx.GraphModule({"count": torch.zeros(1)}, graph))
    assert [call(torch.zeros(1))[0].item() for _ in range(4)] == [1, 2, 3, 4]
