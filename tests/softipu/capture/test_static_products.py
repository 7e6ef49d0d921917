"""Products by index have PyTorch's values and gradients, with no, one and several zeros among the factors."""

import pytest
import torch
from torch import nn

from softipu import poptorch
from softipu.capture.static_products import index_reduce, scatter_reduce

INDEX = torch.tensor([[0, 1, 1, 0, 2], [0, 0, 1, 3, 2], [0, 1, 2, 3, 3], [2, 1, 2, 0, 0]])
ROWS = torch.tensor([2, 0, 2])


def _factors(n_zeros):
    generator = torch.Generator().manual_seed(n_zeros)
    x, y = torch.rand(4, 5, generator=generator) + 0.5, torch.rand(4, 5, generator=generator) + 0.5
    for place in ((0, 0), (1, 0), (2, 3))[:n_zeros]:
        y[place] = 0.0
    if n_zeros:
        x[2, 4] = 0.0
    return x, y


def _compare(ours, theirs, x, y):
    a, b = (x.clone().requires_grad_(), y.clone().requires_grad_()), (x.clone().requires_grad_(), y.clone().requires_grad_())
    got, expected = ours(*a), theirs(*b)
    torch.testing.assert_close(got, expected)
    weights = torch.arange(1.0, 1.0 + got.numel()).view_as(got)
    (got * weights).sum().backward()
    (expected * weights).sum().backward()
    for one, other in zip(a, b):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("n_zeros", [0, 1, 2, 3])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scattered(n_zeros, include_self, dim):
    x, y = _factors(n_zeros)
    _compare(
        lambda a, b: scatter_reduce(a, dim, INDEX, b, "prod", include_self=include_self),
        lambda a, b: torch.scatter_reduce(a, dim, INDEX, b, "prod", include_self=include_self),
        *(x, y),
    )


@pytest.mark.parametrize("n_zeros", [0, 1, 2, 3])
@pytest.mark.parametrize("include_self", [True, False])
def test_rows_by_index(n_zeros, include_self):
    x, y = _factors(n_zeros)
    _compare(
        lambda a, b: index_reduce(a, 0, ROWS, b, "prod", include_self=include_self),
        lambda a, b: torch.index_reduce(a, 0, ROWS, b, "prod", include_self=include_self),
        *(x, y[:3]),
    )


def test_a_source_larger_than_its_index():
    x, y = _factors(1)
    _compare(
        lambda a, b: scatter_reduce(a, 0, INDEX[:2, :3], b, "prod"),
        lambda a, b: torch.scatter_reduce(a, 0, INDEX[:2, :3], b[:2, :3], "prod"),  # PyTorch has no gradient for a larger one
        *(x, y),
    )


@pytest.mark.parametrize("op", [lambda x, y: x.scatter_reduce(0, INDEX, y, "prod"), lambda x, y: x.index_reduce(0, ROWS, y[:3], "prod")])
def test_models_train_through_them(op):
    x, y = _factors(2)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.x, self.y = nn.Parameter(x.clone()), nn.Parameter(y.clone())

        def forward(self):
            return poptorch.identity_loss(op(self.x, self.y) ** 2, reduction="sum")

    host, device = Net(), Net()
    host().backward()
    poptorch.trainingModel(device, None, torch.optim.SGD(device.parameters(), lr=1.0))()
    torch.testing.assert_close(device.x.detach(), x - host.x.grad)
    torch.testing.assert_close(device.y.detach(), y - host.y.grad)
