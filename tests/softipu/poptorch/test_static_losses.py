"""Losses whose PyTorch form looks at values: outputs and gradients as in eager PyTorch, in float and in half."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from softipu import poptorch

CLASSES = torch.tensor([0, 3, 2, 3])
WEIGHTS = torch.tensor([1.0, 2.0, 0.5, 4.0, 1.5])
MAPS = torch.tensor([[[0, 1], [2, 3]]] * 2).reshape(2, 2, 2)
X = torch.linspace(-2.0, 2.0, 20).sin().half().float()

LOSSES = {
    "smoothed": lambda x, r: F.cross_entropy(x.reshape(4, 5), CLASSES, reduction=r, label_smoothing=0.25),
    "smoothed, weighted": lambda x, r: F.cross_entropy(x.reshape(4, 5), CLASSES, WEIGHTS.to(x.dtype), reduction=r, label_smoothing=0.25),
    "smoothed, a class ignored": lambda x, r: F.cross_entropy(x.reshape(4, 5), CLASSES, ignore_index=3, reduction=r, label_smoothing=0.25),
    "smoothed, one row": lambda x, r: F.cross_entropy(x[:5], torch.tensor(2), reduction=r, label_smoothing=0.25),
    "smoothed, maps": lambda x, r: F.cross_entropy(torch.cat([x, x[:12]]).reshape(2, 4, 2, 2), MAPS, reduction=r, label_smoothing=0.25),
    "gaussian": lambda x, r: F.gaussian_nll_loss(x[:8], x[8:16].detach(), (x[4:12] * x[4:12]), reduction=r, eps=0.125),
    "gaussian, full": lambda x, r: F.gaussian_nll_loss(
        x[:8].reshape(4, 2), x[8:16].detach().reshape(4, 2), x[4:8] * x[4:8] + 0.25, full=True, reduction=r
    ),
}
CTC = {
    "lengths in lists": lambda x, r: F.ctc_loss(x.reshape(5, 1, 4).log_softmax(-1), torch.tensor([[1, 2]]), (5,), (2,), reduction=r),
    "lengths in tensors": lambda x, r: F.ctc_loss(
        x.reshape(5, 1, 4).log_softmax(-1), torch.tensor([[1, 2]]), torch.tensor([5]), torch.tensor([2]), reduction=r
    ),
}
CASES = [(n, f, d) for n, f in LOSSES.items() for d in (torch.float32, torch.float16)] + [(n, f, torch.float32) for n, f in CTC.items()]


class Losing(nn.Module):
    def __init__(self, function, reduction):
        super().__init__()
        self.x, self.function, self.reduction = nn.Parameter(X.clone()), function, reduction

    def forward(self):
        y = self.function(self.x, self.reduction)
        return y, poptorch.identity_loss(y.float().sum(), "none")


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("name", "function", "dtype"), CASES)
def test_loss_and_gradient_are_those_of_eager_torch(name, function, dtype, reduction):
    expected = Losing(function, reduction)
    y, loss = expected()
    loss.backward()
    model = Losing(function, reduction).to(dtype)
    got, _ = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.25))()
    # Half: every op rounds to 11 bits, and a loss is about ten of them one after another.
    rtol, atol = (1e-4, 1e-5) if dtype == torch.float32 else (10 * 2.0**-11, 10 * 2.0**-11)
    torch.testing.assert_close(got.float(), y.detach(), rtol=rtol, atol=atol)
    torch.testing.assert_close(model.x.detach().float(), X - 0.25 * expected.x.grad, rtol=rtol, atol=atol)


def test_integers_are_drawn_between_the_limits():
    class Drawing(nn.Module):
        def forward(self, x):
            return (x * 1).random_(2, 5), (x * 1).random_(3), torch.multinomial(torch.ones(4) + 0 * x[0], 3)

    between, below, classes = poptorch.inferenceModel(Drawing(), poptorch.Options().randomSeed(1))(torch.zeros(300))
    assert set(between.tolist()) == {2.0, 3.0, 4.0} and set(below.tolist()) == {0.0, 1.0, 2.0}
    assert len(set(classes.tolist())) == 3 and set(classes.tolist()) <= {0, 1, 2, 3}
