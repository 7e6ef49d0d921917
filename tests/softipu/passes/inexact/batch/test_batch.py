"""n micro-batches in one call give what n calls give, up to the order of additions."""

import logging

import pytest
import torch
from torch import nn

from softipu.graph import Role
from softipu.passes import run_passes
from softipu.passes.inexact.batch import CannotBatch, batch
from softipu.runtime.interpreter import compile_graph
from tests.softipu.captured import captured, inputs_of
from tests.softipu.small_models import Mlp, Recurrent, ResidualNet, TiedEmbedding, TransformerBlock


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.GroupNorm(2, 4), nn.Conv2d(4, 4, 3, groups=2), nn.AvgPool2d(2))

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.body(x).flatten(1), y)

    batch = ResidualNet.batch


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 3))

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.body(x), y)

    batch = Mlp.batch


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("make", [Mlp, TransformerBlock, TiedEmbedding, Convolutions, Dropping])
def test_outputs_are_those_of_each_and_gradients_their_sum(make, n):
    torch.manual_seed(0)
    model = make()
    generator = torch.Generator().manual_seed(1)
    batches = [make.batch(3, generator) for _ in range(n)]
    seeds = torch.arange(n) + 17
    single, many = (run_passes(captured(model, batches[0]))[0] for _ in range(2))
    many = batch(many, n)
    run, together = compile_graph(single.graph_module), compile_graph(many.graph_module)
    each = [[t.clone() for t in run(*inputs_of(single, model, b, seeds[i]))] for i, b in enumerate(batches)]
    got = together(*inputs_of(many, model, [torch.stack(column) for column in zip(*batches)], seeds))
    for place, value in enumerate(single.outputs):
        column = torch.stack([results[place] for results in each])
        want = column if value.role is Role.OUTPUT else column.sum(0)
        torch.testing.assert_close(got[place], want, rtol=1e-5, atol=1e-6)


def test_batchnorm_writes_its_statistics_one_after_the_other():
    model = ResidualNet()
    with pytest.raises(CannotBatch, match="the step writes buffer.bn1.*in place, one micro-batch after the other"):
        batch(captured(model, ResidualNet.batch(3, torch.Generator())), 2)


def test_an_op_that_cannot_be_batched_says_so():
    model = Recurrent()
    step = captured(model, Recurrent.batch(3, torch.Generator()))
    if not any("rnn" in str(node.target) for node in step.graph_module.graph.nodes):
        return  # torch 2.0 makes an LSTM of small ops, which can be batched
    with pytest.raises(CannotBatch):
        batch(step, 2)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.GRU(4, 3, batch_first=True)

    def forward(self, x, y):
        return nn.functional.mse_loss(self.cells(x)[0][:, -1], y)


def test_an_attempt_that_fails_writes_no_traceback(caplog):
    log = logging.getLogger("torch._subclasses.fake_tensor")
    step = captured(Gated(), [torch.ones(2, 5, 4), torch.ones(2, 3)])
    log.addHandler(caplog.handler)
    try:
        batch(step, 2)
    except CannotBatch:
        pass  # on torch 2.13
    finally:
        log.removeHandler(caplog.handler)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
