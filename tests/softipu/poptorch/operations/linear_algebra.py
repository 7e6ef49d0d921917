"""Products, norms and running sums."""

import torch

from tests.softipu.poptorch.operations.example import BATCH, SQUARE, A, B, Table, ex, flat, ints, x

LINEAR_ALGEBRA: Table = {
    "linalg.norm": ex(torch.linalg.norm, A),
    "linalg.matrix_norm": ex(torch.linalg.matrix_norm, A),
    "linalg.vector_norm": ex(lambda a: torch.linalg.vector_norm(a, dim=1), A),
    "cumsum": ex(lambda a: torch.cumsum(a, 1), A),
    "cumprod": ex(lambda a: torch.cumprod(a, 1), A),
    "cross": ex(lambda a, b: torch.cross(a, b, dim=0), A, B),
    "meshgrid": ex(lambda a, b: torch.meshgrid(a, b, indexing="ij"), x(3), x(4)),
    "cartesian_prod": ex(torch.cartesian_prod, x(3), x(4)),
    "tensordot": ex(lambda a, b: torch.tensordot(a, b, dims=([1], [0])), A, SQUARE),
    "addmm": ex(torch.addmm, x(3, 4), A, SQUARE),
    "matmul": ex(torch.matmul, BATCH, SQUARE),
    "bmm": ex(torch.bmm, BATCH, x(2, 4, 5)),
}

VECTOR = x(4)
LINEAR_ALGEBRA_VARIANTS: Table = {
    "matmul, of vectors": ex(torch.matmul, VECTOR, x(4, low=-1.0)),
    "matmul, by a vector": ex(torch.matmul, BATCH, VECTOR),
    "matmul, of a vector": ex(torch.matmul, VECTOR, x(2, 4, 3)),
    "matmul, over batches": ex(torch.matmul, x(2, 1, 3, 4), x(3, 4, 2)),
    "addmm, scaled": ex(lambda a, b, c: torch.addmm(a, b, c, beta=0.75, alpha=0.5), x(3, 1), A, SQUARE),
    "baddbmm": ex(torch.baddbmm, x(1, 5), BATCH, x(2, 4, 5)),
    "baddbmm, scaled": ex(lambda a, b, c: torch.baddbmm(a, b, c, beta=0.75, alpha=0.5), x(2, 3, 5), BATCH, x(2, 4, 5)),
    "addbmm": ex(torch.addbmm, x(3, 5), BATCH, x(2, 4, 5)),
    "addmv": ex(torch.addmv, x(3), A, VECTOR),
    "addr": ex(torch.addr, A, x(3), VECTOR),
    "mv": ex(torch.mv, A, VECTOR),
    "mm": ex(torch.mm, A, SQUARE),
    "dot": ex(torch.dot, VECTOR, x(4, low=-1.0)),
    "outer": ex(torch.outer, x(3), VECTOR),
    "kron": ex(torch.kron, A, x(2, 2)),
    "einsum": ex(lambda a, b: torch.einsum("bij,jk->bki", a, b), BATCH, SQUARE),
    "tensordot, by number": ex(lambda a, b: torch.tensordot(a, b, dims=1), BATCH, SQUARE),
    "linalg.norm, infinite": ex(lambda a: torch.linalg.norm(a, ord=float("inf")), A),
    "linalg.norm, smallest column": ex(lambda a: torch.linalg.norm(a, ord=-1), A),
    "linalg.norm, spectral": ex(lambda a: torch.linalg.norm(a, ord=2), A, in_half=False),
    "linalg.norm, nuclear": ex(lambda a: torch.linalg.norm(a, ord="nuc"), A, in_half=False),
    "linalg.norm, of rows": ex(lambda a: torch.linalg.norm(a, ord=1, dim=1, keepdim=True), A),
    "linalg.vector_norm, of the third power": ex(lambda a: torch.linalg.vector_norm(a, 3), A),
    "linalg.eigh": ex(lambda a: torch.linalg.eigh(a + a.t())[0], SQUARE, in_half=False),
    "linalg.inv": ex(lambda a: torch.linalg.inv(a + 4 * torch.eye(4, dtype=a.dtype)), SQUARE, in_half=False),
    "linalg.solve": ex(lambda a, b: torch.linalg.solve(a + 4 * torch.eye(4), b), SQUARE, VECTOR, in_half=False),
    "linalg.qr": ex(lambda a: torch.linalg.qr(a.t())[1].abs(), A, in_half=False),
    "cov": ex(torch.cov, A),
    "corrcoef": ex(torch.corrcoef, A),
    "cumsum, of the first dimension": ex(lambda a: torch.cumsum(a, -3), BATCH),
    "cumsum, as floats": ex(lambda i: torch.cumsum(i, 0, dtype=torch.float32), ints(3, 4), **flat()),
    "cross, found by its size": ex(torch.linalg.cross, x(2, 3), x(2, 3, low=-1.0)),
    "combinations": ex(torch.combinations, VECTOR),
    "trace": ex(torch.trace, SQUARE),
    "tril and triu": ex(lambda a: torch.tril(a) - torch.triu(a, 1), SQUARE),
}
