"""Draws, each times its input."""

import torch
from torch import nn

from tests.softipu.poptorch.operations.example import A, Table, ex, layer

RANDOM: Table = {
    "bernoulli": ex(lambda a: torch.bernoulli(torch.full_like(a, 0.5)) * a, A, is_random=True),
    "distributions.Bernoulli": ex(lambda a: torch.distributions.Bernoulli(torch.full_like(a, 0.5)).sample() * a, A, is_random=True),
    "randn": ex(lambda a: torch.randn(3, 4, dtype=a.dtype) * a, A, is_random=True),
    "normal": ex(lambda a: torch.normal(torch.zeros_like(a), torch.ones_like(a)) * a, A, is_random=True),
    "distributions.Normal": ex(
        lambda a: torch.distributions.Normal(torch.zeros_like(a), torch.ones_like(a)).rsample() * a, A, is_random=True
    ),
    "rand": ex(lambda a: torch.rand(3, 4, dtype=a.dtype) * a, A, is_random=True),
    "uniform": ex(lambda a: torch.empty_like(a).uniform_(0.0, 1.0) * a, A, is_random=True),
    "distributions.Uniform": ex(
        lambda a: torch.distributions.Uniform(torch.zeros_like(a), torch.ones_like(a)).rsample() * a, A, is_random=True
    ),
    "exponential": ex(lambda a: torch.empty_like(a).exponential_(1.0) * a, A, is_random=True),
    "distributions.Exponential": ex(lambda a: torch.distributions.Exponential(torch.ones_like(a)).rsample() * a, A, is_random=True),
    "randperm": ex(lambda a: torch.randperm(5) + a[0, 0], A, is_random=True, is_scaling=False),
    "nn.dropout": layer(lambda: nn.Dropout(0.5), A, is_random=True),
    "nn.RReLU": layer(lambda: nn.RReLU(), A, is_random=True),
}
