"""Sums, means and the like."""

import torch

from tests.softipu.poptorch.operations.example import A, Table, bools, ex, flat, ints, x

REDUCTIONS: Table = {
    "all": ex(lambda m: torch.all(m, 1), bools(3, 4), **flat()),
    "any": ex(lambda m: torch.any(m, 1), bools(3, 4), **flat()),
    "argmax": ex(lambda a: torch.argmax(a, 1), A, **flat()),
    "argmin": ex(lambda a: torch.argmin(a, 1), A, **flat()),
    "count_nonzero": ex(lambda i: torch.count_nonzero(i, 0), ints(3, 4), **flat()),
    "mean": ex(lambda a: torch.mean(a, 1), A),
    "median": ex(lambda a: torch.median(a, 1), x(3, 5)),
    "prod": ex(lambda a: torch.prod(a, 1), A),
    "logsumexp": ex(lambda a: torch.logsumexp(a, 1), A),
    "std": ex(lambda a: torch.std(a, 1), A),
    "std_mean": ex(lambda a: torch.std_mean(a, 1), A),
    "sum": ex(lambda a: torch.sum(a, 1), A),
    "var": ex(lambda a: torch.var(a, 1), A),
    "var_mean": ex(lambda a: torch.var_mean(a, 1), A),
}
