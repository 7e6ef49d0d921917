"""Functions captured in a form of their own: groups of strided channels, and running sums written to a tensor of another type."""

import copy

import pytest
import torch
from torch import nn

from softipu import poptorch


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, 6)
        with torch.no_grad():
            self.norm.weight.copy_(torch.linspace(0.5, 1.5, 6))
            self.norm.bias.copy_(torch.linspace(-1.0, 1.0, 6))

    def forward(self, x):
        y = self.norm(x)
        return y, poptorch.identity_loss((y * torch.linspace(0.0, 1.0, y.numel()).reshape(y.shape)).sum(), "none")


def strided():
    options = poptorch.Options()
    options._Popart.set("groupNormStridedChannelGrouping", True)
    return options


def by_hand(x):
    """Two groups of six channels: the even ones and the odd ones."""
    groups = [x[:, 0::2], x[:, 1::2]]
    normed = [(g - g.mean((1, 2), keepdim=True)) / (g.var((1, 2), unbiased=False, keepdim=True) + 1e-5).sqrt() for g in groups]
    return torch.stack(normed, 2).flatten(1, 2) * torch.linspace(0.5, 1.5, 6)[:, None] + torch.linspace(-1.0, 1.0, 6)[:, None]


X = torch.arange(48.0).reshape(2, 6, 4).sin()


def test_strided_groups_are_every_nth_channel():
    got, _ = poptorch.inferenceModel(Normed(), strided())(X)
    torch.testing.assert_close(got, by_hand(X), rtol=1e-4, atol=1e-5)
    plain, _ = poptorch.inferenceModel(Normed())(X)
    torch.testing.assert_close(plain, Normed()(X)[0].detach(), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(got, plain, atol=0.1)


def test_gradients_of_strided_groups_belong_to_their_channels():
    model = Normed()
    host = copy.deepcopy(model)
    trainer = poptorch.trainingModel(model, strided(), torch.optim.SGD(model.parameters(), lr=0.5))
    trainer(X)
    scale = torch.linspace(0.0, 1.0, 48).reshape(2, 6, 4)
    normed = (by_hand(X) - host.norm.bias[:, None]) / host.norm.weight[:, None]
    for got, before, gradient in (
        (model.norm.weight, host.norm.weight, (scale * normed).sum((0, 2))),
        (model.norm.bias, host.norm.bias, scale.sum((0, 2))),
    ):
        torch.testing.assert_close(got.detach(), (before - 0.5 * gradient).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function", [torch.cumsum, torch.cumprod])
@pytest.mark.parametrize("given", [torch.float32, torch.int32])
@pytest.mark.parametrize("written", [torch.float32, torch.int32])
def test_running_sums_take_the_type_of_the_tensor_that_they_are_written_to(function, given, written):
    class Running(nn.Module):
        def forward(self, x):
            return function(x, dim=-1, out=torch.empty(x.shape, dtype=written))

    x = torch.tensor([[1.0, 2.5, 3.0], [-1.0, 2.0, 0.5]]).to(given)
    got = poptorch.inferenceModel(Running())(x)
    assert got.dtype == written
    assert torch.equal(got, Running()(x))
