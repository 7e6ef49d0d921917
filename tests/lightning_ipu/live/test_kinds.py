"""Sum, mean, maximum or minimum: how a step came by a scalar."""

import pytest
import torch
from torch.nn import functional as F

from lightning_ipu.live.kinds import Kinds

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
    "by_all_elements": lambda: X.sum() / X.numel(),
    "by_a_float": lambda: (X.argmax(-1) == Y).sum() / float(len(Y)),
    "in_place": lambda: (X.argmax(-1) == Y).sum().float().div_(4),
    "total_from_zero": lambda: torch.zeros(()).add_(X.sum()),
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
    "by_all_elements": "mean",
    "by_a_float": "mean",
    "in_place": "mean",
    "total_from_zero": "sum",
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


DERIVED = {
    "ratio": lambda: X.sum() / X.abs().sum(),
    "root": lambda: F.mse_loss(X, torch.zeros_like(X)).sqrt(),
    "decibel": lambda: -10 * torch.log10(X.square().mean()),
    "f1": lambda: 2 * X.abs().sum() / (X.abs().sum() + X.sum().abs() + 1e-6),
    "complement": lambda: 1 - (X.argmax(-1) == Y).sum() / X.abs().sum(),
}


@pytest.mark.parametrize("name", DERIVED)
def test_functions_of_scalars_are_known_by_what_they_are_made_of(name):
    kinds = Kinds(4)
    with kinds:
        value = DERIVED[name]()
    derivation = kinds.derivation(value)
    assert kinds.of(value) is None
    assert torch.equal(derivation.function(*derivation.args, **derivation.kwargs), value)


def test_what_is_made_of_unknown_scalars_or_of_one_that_changed_is_not_derived():
    kinds = Kinds(4)
    with kinds:
        unknown = X[0, 0].exp()
        total = X.sum()
        root = total.abs().sqrt()
        total += 1
        later = total.exp()
        total.zero_()
    assert kinds.derivation(unknown) is None and kinds.derivation(later) is None
    assert kinds.derivation(root) is not None  # made of the absolute value, which nobody changed
