"""Sum, mean, maximum or minimum: how a step came by a scalar."""

import pytest
import torch
from torch.nn import functional as F

from lightning_ipu.kinds import Kinds

X = torch.randn(4, 3)
Y = torch.tensor([0, 1, 2, 0])

CASES = {
    "sum": lambda: X.sum(),
    "mean": lambda: X.mean(),
    "max": lambda: X.max(),
    "amin": lambda: torch.amin(X),
    "cross_entropy": lambda: F.cross_entropy(X, Y),
    "mse_sum": lambda: F.mse_loss(X, X, reduction="sum"),
    "hits": lambda: (X.argmax(-1) == Y).sum().float(),
    "accuracy": lambda: (X.argmax(-1) == Y).sum() / 4,
    "scaled": lambda: -2 * X.mean().detach(),
    "two_losses": lambda: F.cross_entropy(X, Y) + 0.5 * X.pow(2).mean(),
    "with_penalty": lambda: F.cross_entropy(X, Y) + 3 * torch.ones(2).norm(),
    "ratio": lambda: X.sum() / X.abs().sum(),
    "exp": lambda: F.cross_entropy(X, Y).exp(),
}
KINDS = {
    "sum": "sum",
    "mean": "mean",
    "max": "max",
    "amin": "min",
    "cross_entropy": "mean",
    "mse_sum": "sum",
    "hits": "sum",
    "accuracy": "mean",
    "scaled": "mean",
    "two_losses": "mean",
    "with_penalty": "mean",
    "ratio": None,
    "exp": None,
}


@pytest.mark.parametrize("name", CASES)
def test_kind_of(name):
    kinds = Kinds(4)
    with kinds:
        value = CASES[name]()
    assert kinds.of(value) == KINDS[name]


def test_a_sum_divided_by_another_number_stays_a_sum():
    kinds = Kinds(4)
    with kinds:
        value = X.sum() / 10
    assert kinds.of(value) == "sum"
