"""An op that returns one tensor twice gives the same graph in every capture of a process, and gradients in memory of their own."""

import copy

import pytest
import torch
from torch import nn

from softipu import poptorch
from softipu.graph.aliases import fake_tensors, storage_key
from tests.softipu.captured import captured


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.body = kind(4, 5, batch_first=True)

    def forward(self, x):
        y = self.body(x)[0]
        return nn.functional.mse_loss(y, torch.zeros_like(y))


def graph_of(module, x):
    return captured(module, [x]).graph_module


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_every_capture_gives_the_same_graph(kind):
    module, x = Recurrent(kind), torch.randn(2, 3, 4)
    assert len({graph_of(module, x).code for _ in range(4)}) == 1


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_gradients_of_every_capture_accumulate_as_in_eager_torch(kind):
    torch.manual_seed(0)
    expected, x = Recurrent(kind), torch.randn(6, 3, 4)
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.5)
    models = [copy.deepcopy(expected) for _ in range(3)]
    for _ in range(2):
        optimizer.zero_grad()
        expected(x).backward()
        optimizer.step()
    options = poptorch.Options()
    options.Training.gradientAccumulation(3)
    for model in models:  # the first capture of a process and those that follow
        executor = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.5))
        for _ in range(2):
            executor(x)
        for got, wanted in zip(model.parameters(), expected.parameters()):
            torch.testing.assert_close(got.detach(), wanted.detach(), rtol=1e-5, atol=1e-6)


def test_the_values_of_results_that_are_one_tensor_share_memory():
    module, x = Recurrent(nn.LSTM), torch.randn(2, 3, 4)
    counts = set()
    for _ in range(4):
        graph = graph_of(module, x).graph
        made = [t for node in graph.nodes if "rnn_layer_backward" in node.name for t in fake_tensors(node)]
        counts.add((len(made), len({storage_key(t) for t in made})))
    assert len(counts) == 1
    assert all(tensors == memories + 1 or not tensors for tensors, memories in counts)  # torch 2.0 has no such op
