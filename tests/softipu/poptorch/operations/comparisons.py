"""Comparisons and orders."""

import torch

from tests.softipu.poptorch.operations.example import A, B, Table, ex, flat, ints

COMPARISONS: Table = {
    "eq": ex(torch.eq, ints(5), ints(5), **flat()),
    "ge": ex(torch.ge, A, B, **flat()),
    "gt": ex(torch.gt, A, B, **flat()),
    "le": ex(torch.le, A, B, **flat()),
    "lt": ex(torch.lt, A, B, **flat()),
    "max": ex(lambda a: torch.max(a, 1), A),
    "min": ex(lambda a: torch.min(a, 1), A),
    "ne": ex(torch.ne, ints(5), ints(5), **flat()),
    "isnan": ex(torch.isnan, A, **flat()),
    "topk": ex(lambda a: torch.topk(a, 2, 1), A),
    "argsort": ex(lambda a: torch.argsort(a, 1), A, **flat()),
    "sort": ex(lambda a: torch.sort(a, 1), A),
}
