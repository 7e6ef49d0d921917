"""Quantiles without a look at values are PyTorch's, gradients too."""

import pytest
import torch

from softipu.capture.static_quantiles import INTERPOLATIONS, nanquantile, quantile

X = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
Q = torch.tensor([0.0, 0.3, 0.5, 1.0])


@pytest.mark.parametrize("ours, theirs", [(quantile, torch.quantile), (nanquantile, torch.nanquantile)], ids=["quantile", "nanquantile"])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [None, 0, 1, -1])
@pytest.mark.parametrize("q", [0.3, 1.0, torch.tensor(0.25), Q], ids=["number", "one", "scalar", "several"])
def test_values_and_gradients(ours, theirs, interpolation, keepdim, dim, q):
    for holes in (False, True):
        x = X.clone()
        if holes:
            x[1, 2, 3] = x[0, 0, 0] = float("nan")
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        got, expected = ours(a, q, dim, keepdim, interpolation=interpolation), theirs(b, q, dim, keepdim, interpolation=interpolation)
        torch.testing.assert_close(got, expected, equal_nan=True)
        got.sum().backward()
        expected.sum().backward()
        torch.testing.assert_close(a.grad, b.grad, equal_nan=True)


def test_rows_of_nothing_but_nan_and_single_values():
    nan = torch.full((2, 3), float("nan"))
    assert nanquantile(nan, 0.5, 1).isnan().all()
    assert quantile(torch.tensor(3.0), 0.7).item() == 3.0


def test_other_interpolations_are_refused():
    with pytest.raises(RuntimeError, match="interpolation must be one of linear, lower, higher, midpoint, nearest, but got cubic"):
        quantile(X, 0.5, interpolation="cubic")
