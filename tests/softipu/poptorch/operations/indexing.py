"""Parts of tensors, joined and rearranged."""

import torch

from tests.softipu.poptorch.operations.example import BATCH, SQUARE, A, B, Table, bools, ex, flat, ints

INDEXING: Table = {
    "bincount": ex(lambda i: torch.bincount(i, minlength=4), ints(10), **flat()),
    "bucketize": ex(lambda a: torch.bucketize(a, torch.tensor([-1.0, 0.0, 1.0], dtype=a.dtype)), A, **flat()),
    "cat": ex(lambda a, b: torch.cat([a, b], 1), A, B),
    "chunk": ex(lambda a: torch.chunk(a, 2, 1), A),
    "gather": ex(lambda a, i: torch.gather(a, 1, i), A, ints(3, 2)),
    "index_select": ex(lambda a, i: torch.index_select(a, 0, i), A, ints(5, high=3)),
    "index_reduce": ex(lambda a, b, i: torch.index_reduce(a, 0, i, b, "mean"), A, B, torch.tensor([0, 2, 0])),
    "reshape": ex(lambda a: torch.reshape(a, (2, 6)), A),
    "roll": ex(lambda a: torch.roll(a, 1, 0), A),
    "scatter": ex(lambda a, i: torch.scatter(torch.zeros_like(a), 1, i, a), SQUARE, torch.tensor([[0, 1, 2, 3]] * 4)),
    "scatter_add": ex(lambda a, i: torch.scatter_add(torch.zeros_like(a), 1, i, a), A, ints(3, 4)),
    "scatter_reduce": ex(lambda a, i: torch.scatter_reduce(torch.zeros_like(a), 1, i, a, "sum"), A, ints(3, 4)),
    "stack": ex(lambda a, b: torch.stack([a, b], 1), A, B),
    "split": ex(lambda a: torch.split(a, [1, 3], 1), A),
    "squeeze": ex(lambda a: torch.squeeze(a.unsqueeze(1)), A),
    "t": ex(torch.t, A),
    "take_along_dim": ex(lambda a, i: torch.take_along_dim(a, i, 1), A, ints(3, 2)),
    "transpose": ex(lambda a: torch.transpose(a, 0, 2), BATCH),
    "unbind": ex(lambda a: torch.unbind(a, 1), A),
    "unsqueeze": ex(lambda a: torch.unsqueeze(a, 1), A),
    "where": ex(lambda a, b: torch.where(a > 0, a, b), A, B),
    "tensor.expand": ex(lambda a: a.expand(2, 3, 4), A),
    "tensor.expand_as": ex(lambda a, b: a.expand_as(b), A, BATCH),
    "tensor.masked_fill": ex(lambda a, m: a.masked_fill(m, 0.5), A, bools(3, 4)),
    "tensor.index_fill_": ex(lambda a: a.clone().index_fill_(0, torch.tensor([0, 2]), 0.5), A),
}
