"""Factorisations of small matrices and what is computed by them.

Counted as multiplications and additions outside the matrix unit, by the usual leading terms (Golub and Van Loan, Matrix Computations):
the columns of a factorisation depend on one another, so each is rounds of its own. Dimensions before the last two are independent
matrices, which share the rounds.
"""

from typing import Optional, Tuple

import torch
from torch.fx import Node

from softipu.ops.matmul import product
from softipu.ops.registry import work_rule
from softipu.ops.tensors import argument, bits_of, tensor, traffic
from softipu.ops.work import Contraction, Work
from softipu.ops.work import VectorOp as V

_FAMILY = "linalg"
# Products of PyTorch's Taylor polynomial of degree 18, the highest that it takes.
_EXPONENTIAL_PRODUCTS = 5


def _matrices(value: torch.Tensor) -> Tuple[int, int, int]:
    """(matrices, rows, columns)."""
    rows, columns = value.shape[-2], value.shape[-1]
    return value.numel() // max(1, rows * columns), rows, columns


def _counted(node: Node, like: torch.Tensor, vector: Tuple[Tuple[V, float], ...], n_supersteps: int) -> Work:
    read, written = traffic(node)
    return Work(_FAMILY, (), vector, bits_of(like), read, written, n_supersteps=n_supersteps)


def _lu(count: int, n: int) -> Tuple[Tuple[V, float], ...]:
    """2/3 n^3 multiplications and subtractions; each column looks for its pivot and is divided by it, n (n - 1) / 2 elements in all."""
    below = count * n * (n - 1) / 2
    return ((V.ADD, count * 2 * n**3 / 3), (V.COMPARE, below), (V.DIVIDE, below))


@work_rule("_linalg_det", "linalg_det")
def det(node: Node) -> Work:
    """LU in three rounds a column (pivot, division, update), then the product of the diagonal: n multiplications."""
    a = tensor(node.args[0])
    assert a is not None
    count, _, n = _matrices(a)
    return _counted(node, a, (*_lu(count, n), (V.REDUCE, float(count * n))), 3 * n + 1)


@work_rule("_linalg_slogdet", "linalg_slogdet")
def slogdet(node: Node) -> Work:
    """As a determinant, with a logarithm of each element of the diagonal."""
    a = tensor(node.args[0])
    assert a is not None
    count, _, n = _matrices(a)
    return _counted(node, a, (*_lu(count, n), (V.LOG, float(count * n)), (V.REDUCE, float(count * n))), 3 * n + 2)


@work_rule("linalg_inv_ex", "linalg_inv")
def inverse(node: Node) -> Work:
    """LU, then two triangular solves with the identity: 2 n^3 in all; three rounds a column of LU, one a row of each solve."""
    a = tensor(node.args[0])
    assert a is not None
    count, _, n = _matrices(a)
    (_, lu), *pivots = _lu(count, n)
    return _counted(node, a, ((V.ADD, lu + count * 4 * n**3 / 3), *pivots), 5 * n)


@work_rule("linalg_cholesky_ex", "linalg_cholesky", "cholesky")
def cholesky(node: Node) -> Work:
    """1/3 n^3 multiplications and subtractions, a root and a division of what is below it a column: two rounds each."""
    a = tensor(node.args[0])
    assert a is not None
    count, _, n = _matrices(a)
    vector = ((V.ADD, count * n**3 / 3), (V.SQRT, float(count * n)), (V.DIVIDE, count * n * (n - 1) / 2))
    return _counted(node, a, vector, 2 * n)


@work_rule("linalg_lu_factor_ex", "linalg_lu_factor", "linalg_lu")
def lu(node: Node) -> Work:
    """LU in three rounds a column; of [m, n] it takes what a square of the smaller side takes, and the rest of the longer one."""
    a = tensor(node.args[0])
    assert a is not None
    count, rows, columns = _matrices(a)
    n, more = min(rows, columns), abs(rows - columns)
    (_, square), *pivots = _lu(count, n)
    return _counted(node, a, ((V.ADD, square + count * more * n**2), *pivots), 3 * n)


@work_rule("_linalg_solve_ex", "linalg_solve_ex", "linalg_solve")
def solve(node: Node) -> Work:
    """LU, then two triangular solves: n^2 multiplications and subtractions each for every column of the right side."""
    a, solution = tensor(node.args[0]), tensor(node)
    assert a is not None and solution is not None
    count, _, n = _matrices(a)
    (_, lu_arithmetic), *pivots = _lu(count, n)
    return _counted(node, a, ((V.ADD, lu_arithmetic + 2 * n * solution.numel()), *pivots, (V.DIVIDE, float(solution.numel()))), 5 * n)


@work_rule("linalg_qr", "geqrf", "linalg_householder_product")
def qr(node: Node) -> Work:
    """Reflections of k = min(m, n) columns: 2 k^2 (m - k / 3) of the longer side m, and as much for Q; two rounds a column each."""
    a = tensor(node.args[0])
    assert a is not None
    count, rows, columns = _matrices(a)
    m, k = max(rows, columns), min(rows, columns)
    n_parts = 2 if node.target._schema.name == "aten::linalg_qr" and argument(node, "mode", "reduced") != "r" else 1  # type: ignore[union-attr]
    vector = ((V.ADD, n_parts * count * 2 * k**2 * (m - k / 3)), (V.SQRT, float(count * k)))
    return _counted(node, a, vector, n_parts * 2 * k)


@work_rule("_linalg_eigh", "linalg_eigh", "linalg_eigvalsh")
def symmetric_eigenvalues(node: Node) -> Work:
    """4/3 n^3 for the values of a symmetric matrix, 9 n^3 with its vectors; rounds: n reflections of two, about two sweeps a value."""
    a = tensor(node.args[0])
    assert a is not None
    count, _, n = _matrices(a)
    vectors = bool(argument(node, "compute_v", "eigvalsh" not in str(node.target)))
    return _counted(node, a, ((V.ADD, count * n**3 * (9 if vectors else 4 / 3)),), 4 * n)


@work_rule("linalg_eig")
def eigenvalues(node: Node) -> Work:
    """25 n^3 for the values of any matrix with their vectors, which a step always computes; rounds as for a symmetric one."""
    a = tensor(node.args[0])
    assert a is not None
    count, _, n = _matrices(a)
    return _counted(node, a, ((V.ADD, float(count * n**3 * 25)),), 4 * n)


@work_rule("linalg_lu_solve")
def lu_solve(node: Node) -> Work:
    """Two triangular solves of [n, k]: n^2 k multiplications and subtractions each, and n k divisions; one round a row."""
    return _solved(node, tensor(node.args[0]), tensor(node.args[2]), 2)


@work_rule("linalg_solve_triangular", "triangular_solve")
def solve_triangular(node: Node) -> Work:
    """One triangular solve of [n, k]."""
    a, b = tensor(node.args[0]), tensor(node.args[1])
    if node.target._schema.name == "aten::triangular_solve":  # type: ignore[union-attr]
        a, b = b, a
    return _solved(node, a, b, 1)


def _solved(node: Node, matrix: Optional[torch.Tensor], right: Optional[torch.Tensor], n_solves: int) -> Work:
    assert matrix is not None and right is not None
    n, elements = matrix.shape[-1], tensor(node)
    assert elements is not None
    size = float(elements.numel())
    return _counted(node, matrix, ((V.ADD, n_solves * n * size), (V.DIVIDE, size)), n_solves * n)


def _svd(count: int, rows: int, columns: int, *, vectors: bool, full: bool) -> Tuple[float, int]:
    """(multiplications and additions, rounds) of singular values, and vectors, of [m, n] with m >= n.

    Values alone take 2 m n^2 + 2 n^3; with thin vectors it is 6 m n^2 + 20 n^3, with all vectors 4 m^2 n + 22 n^3. Rounds: n reflections
    from each side, of two rounds each, and about two sweeps for each value.
    """
    m, n = max(rows, columns), min(rows, columns)
    each = 2 * m * n**2 + 2 * n**3 if not vectors else 4 * m**2 * n + 22 * n**3 if full else 6 * m * n**2 + 20 * n**3
    return float(count * each), 6 * n


@work_rule("_linalg_svd", "linalg_svd", "linalg_svdvals")
def svd(node: Node) -> Work:
    """Singular values, and vectors where they are asked for."""
    a = tensor(node.args[0])
    assert a is not None
    vectors = bool(argument(node, "compute_uv", "svdvals" not in str(node.target)))
    arithmetic, rounds = _svd(*_matrices(a), vectors=vectors, full=bool(argument(node, "full_matrices", False)))
    return _counted(node, a, ((V.ADD, arithmetic),), rounds)


@work_rule("linalg_pinv")
def pseudo_inverse(node: Node) -> Work:
    """Thin singular vectors, the inverse of each value, and the product V[n, k] @ U^T[k, m], k = min(m, n)."""
    a = tensor(node.args[0])
    assert a is not None
    count, rows, columns = _matrices(a)
    values = min(rows, columns)
    arithmetic, rounds = _svd(count, rows, columns, vectors=True, full=False)
    contraction = Contraction(count, columns, values, rows, 1, columns, bits_of(a))
    read, written = traffic(node)
    scaled = ((V.ADD, arithmetic + count * values * columns), (V.INVERSE, float(count * values)))
    return Work(_FAMILY, (contraction,), scaled, bits_of(a), read, written, n_supersteps=rounds + 1)


@work_rule("linalg_matrix_exp", "matrix_exp")
def matrix_exponential(node: Node) -> Work:
    """A Taylor polynomial of degree 18 in five products, of which four have as many sums; squarings depend on values and are left out."""
    a = tensor(node.args[0])
    assert a is not None
    count, _, n = _matrices(a)
    contraction = Contraction(count, n, n, n, 1, n, bits_of(a))
    return product(node, (contraction,) * _EXPONENTIAL_PRODUCTS, float((_EXPONENTIAL_PRODUCTS - 1) * a.numel()), a)
