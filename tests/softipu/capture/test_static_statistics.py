"""Covariances, correlations and combinations inside a step: values and gradients of eager PyTorch."""

import pytest
import torch
from torch import nn

from softipu import poptorch

X = torch.tensor([[1.0, 2.0, 4.0, 3.0, 0.0], [2.0, 1.0, 1.0, 5.0, 3.0], [0.5, 0.0, 2.0, 1.0, 7.0]])
COUNTS = torch.tensor([1, 2, 1, 3, 1])
IMPORTANCE = torch.tensor([0.5, 0.25, 1.0, 0.75, 0.5])

FUNCTIONS = {
    "cov": torch.cov,
    "cov method": lambda x: x.cov(),
    "cov of one variable": lambda x: torch.cov(x[0]),
    "cov of the population": lambda x: torch.cov(x, correction=0),
    "cov with counts": lambda x: torch.cov(x, fweights=COUNTS),
    "cov with importance": lambda x: torch.cov(x, aweights=IMPORTANCE.to(x.dtype)),
    "cov with both": lambda x: torch.cov(x, correction=2, fweights=COUNTS, aweights=IMPORTANCE.to(x.dtype)),
    "cov with importance of the population": lambda x: torch.cov(x, correction=0, aweights=IMPORTANCE.to(x.dtype)),
    "corrcoef": torch.corrcoef,
    "corrcoef of one variable": lambda x: torch.corrcoef(x[0]),
    "combinations": lambda x: torch.combinations(x[0]),
    "combinations of three": lambda x: torch.combinations(x[0], 3),
    "combinations with replacement": lambda x: torch.combinations(x[0], 2, with_replacement=True),
    "combinations of none": lambda x: torch.combinations(x[0], 5).sum(0),
}


class Scored(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.x, self.function = nn.Parameter(X.clone()), function

    def forward(self):
        y = self.function(self.x)
        weights = torch.linspace(0.5, 1.5, y.numel()).reshape(y.shape)
        return y, poptorch.identity_loss((y * weights).sum(), "none")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_eager_torch(name):
    host, model = Scored(FUNCTIONS[name]), Scored(FUNCTIONS[name])
    expected, loss = host()
    loss.backward()
    got, _ = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.25))()
    torch.testing.assert_close(got, expected.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model.x.detach(), X - 0.25 * host.x.grad, rtol=1e-4, atol=1e-5)


def test_correlations_are_right_by_hand():
    class Perfect(nn.Module):
        def forward(self, x):
            return torch.corrcoef(torch.stack([x, 2 * x + 1, -x]))

    got = poptorch.inferenceModel(Perfect())(torch.tensor([1.0, 2.0, 4.0]))
    torch.testing.assert_close(got, torch.tensor([[1.0, 1.0, -1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]))


def test_combinations_need_one_dimension():
    class Square(nn.Module):
        def forward(self, x):
            return torch.combinations(x)

    with pytest.raises(RuntimeError, match=r"one dimension, not one of shape \[2, 2\]"):
        poptorch.inferenceModel(Square())(torch.ones(2, 2))
