"""Layers and initialisers of torch.nn that look at values on the host: their numbers are those of eager PyTorch."""

import copy
import math

import pytest
import torch
from torch import nn

from softipu import poptorch


class Squares(nn.Module):
    """A layer with the sum of its squares as the loss."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, *inputs):
        y = self.layer(*inputs)
        return y, poptorch.identity_loss((y.float() ** 2).sum() * 0.01, "none")


def norm():
    return nn.BatchNorm1d(4, momentum=None)


def test_batch_norm_without_momentum_averages_over_all_micro_batches():
    torch.manual_seed(0)
    host = norm()
    model = Squares(copy.deepcopy(host))
    options = poptorch.Options().deviceIterations(2)
    options.Training.gradientAccumulation(3)
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.0))
    for _ in range(2):
        x = torch.randn(36, 4) * 3 + 1
        y, _ = trainer(x)
        expected = [host(rows) for rows in x.split(6)]
        torch.testing.assert_close(y, expected[-1].detach())
    trainer.copyWeightsToHost()
    for name, buffer in host.named_buffers():
        torch.testing.assert_close(getattr(model.layer, name), buffer)
    assert host.num_batches_tracked == 12


def test_batch_norm_without_momentum_leaves_its_statistics_in_evaluation():
    layer = norm().eval()
    layer.running_mean.fill_(2.0)
    x = torch.randn(5, 4)
    torch.testing.assert_close(poptorch.inferenceModel(layer)(x), (x - 2.0) / math.sqrt(1.0 + layer.eps))


def test_batch_norm_without_momentum_is_trained_like_in_eager_torch():
    torch.manual_seed(0)
    model = Squares(nn.Sequential(nn.Linear(3, 4), norm()))
    host = copy.deepcopy(model)
    trainer = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5))
    optimizer = torch.optim.SGD(host.parameters(), lr=0.5)
    for _ in range(3):
        x = torch.randn(8, 3)
        trainer(x)
        optimizer.zero_grad()
        host(x)[1].backward()
        optimizer.step()
    for got, expected in zip(model.state_dict().values(), host.state_dict().values()):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_truncated_normal_stays_within_its_limits_and_keeps_its_moments(dtype):
    class Drawn(nn.Module):
        def forward(self, x):
            return nn.init.trunc_normal_(torch.empty(20000, dtype=dtype), 1.0, 2.0, -1.0, 4.0) + x

    drawn = poptorch.inferenceModel(Drawn(), poptorch.Options().randomSeed(3))(torch.zeros((), dtype=dtype))
    assert drawn.dtype == dtype and drawn.min() >= -1.0 and drawn.max() <= 4.0
    # Of a normal distribution with mean 1 and deviation 2 between -1 and 1.5 deviations from its mean.
    low, high = -1.0, 1.5
    pdf = [math.exp(-v * v / 2) / math.sqrt(2 * math.pi) for v in (low, high)]
    inside = (math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2))) / 2
    mean = (pdf[0] - pdf[1]) / inside
    variance = 1 + (low * pdf[0] - high * pdf[1]) / inside - mean**2
    assert drawn.float().mean().item() == pytest.approx(1.0 + 2.0 * mean, abs=0.05)
    assert drawn.float().std().item() == pytest.approx(2.0 * math.sqrt(variance), abs=0.05)


CAUSAL = torch.triu(torch.full((5, 5), float("-inf")), 1)
BAND = torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(3).bool(), float("-inf"))
SIZES = {"dropout": 0.0, "batch_first": True, "dim_feedforward": 16}


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, **SIZES), 2)

    def forward(self, x, mask):
        return self.layers(x, mask)


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Transformer(8, 2, 1, 1, **SIZES)

    def forward(self, x, mask):
        return self.layers(x, x, src_mask=mask, tgt_mask=mask)


@pytest.mark.parametrize("mask", [CAUSAL, BAND], ids=["causal", "band"])
@pytest.mark.parametrize("kind", [Encoder, Both])
def test_transformers_take_masks_as_inputs(kind, mask):
    torch.manual_seed(0)
    model = Squares(kind())
    host = copy.deepcopy(model)
    x = torch.randn(2, 5, 8)
    trainer = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5))
    y, _ = trainer(x, mask)
    expected, loss = host(x, mask)
    torch.testing.assert_close(y, expected.detach(), rtol=1e-4, atol=1e-5)
    loss.backward()
    for got, parameter in zip(model.parameters(), host.parameters()):
        torch.testing.assert_close(got.detach(), parameter.detach() - 0.5 * parameter.grad, rtol=1e-4, atol=1e-5)


def test_layers_are_pytorchs_own_after_a_capture():
    before = (nn.BatchNorm1d.forward, nn.TransformerEncoder.forward, nn.TransformerDecoder.forward, nn.init._no_grad_trunc_normal_)
    poptorch.inferenceModel(norm().eval())(torch.randn(5, 4))
    after = (nn.BatchNorm1d.forward, nn.TransformerEncoder.forward, nn.TransformerDecoder.forward, nn.init._no_grad_trunc_normal_)
    assert before == after
