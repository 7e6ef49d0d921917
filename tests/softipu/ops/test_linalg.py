"""Factorisations, transforms and the like, counted by hand; in training no op of their gradients is without a rule."""

import math

import pytest
import torch
import torch.nn.functional as F

from softipu.ops import VectorOp
from tests.softipu.ops.test_work import ops_of


def work_named(name, function, *inputs):
    (work,) = [op.work for op in ops_of(function, *inputs) if op.name == f"aten::{name}"]
    return work


def count(work, kind):
    return sum(n for k, n in work.vector if k is kind)


def three(n=6, m=None):
    return torch.randn(3, n, m or n)


def test_determinants_are_lu_and_the_product_of_the_diagonal():
    work = work_named("_linalg_det", torch.linalg.det, three())
    assert count(work, VectorOp.ADD) == 3 * 2 * 6**3 / 3
    assert count(work, VectorOp.DIVIDE) == count(work, VectorOp.COMPARE) == 3 * 15
    assert count(work, VectorOp.REDUCE) == 3 * 6 and work.n_supersteps == 19


def test_logarithms_of_determinants_take_one_logarithm_a_row_more():
    plain = work_named("_linalg_det", torch.linalg.det, three())
    work = work_named("_linalg_slogdet", lambda x: torch.linalg.slogdet(x)[1], three())
    assert work.flops == plain.flops + 18 and count(work, VectorOp.LOG) == 18


def test_inverse_takes_two_n_cubed():
    work = work_named("linalg_inv_ex", torch.linalg.inv, three())
    assert count(work, VectorOp.ADD) == 3 * 2 * 6**3 and work.n_supersteps == 30


def test_cholesky_takes_half_of_lu():
    work = work_named("linalg_cholesky_ex", lambda x: torch.linalg.cholesky(x @ x.mT + 9 * torch.eye(6)), three())
    assert count(work, VectorOp.ADD) == 3 * 6**3 / 3
    assert (count(work, VectorOp.SQRT), count(work, VectorOp.DIVIDE), work.n_supersteps) == (18, 45, 12)


@pytest.mark.parametrize(
    ("function", "each"),
    [
        (lambda x: torch.ops.aten._linalg_svd(x, False, False)[1], 2 * 8 * 4**2 + 2 * 4**3),
        (lambda x: torch.linalg.svd(x, full_matrices=False)[0], 6 * 8 * 4**2 + 20 * 4**3),
        (lambda x: torch.linalg.svd(x, full_matrices=True)[0], 4 * 8**2 * 4 + 22 * 4**3),
    ],
    ids=["values", "thin", "full"],
)
@pytest.mark.parametrize("shape", [(8, 4), (4, 8)])
def test_singular_values_cost_more_with_vectors(function, each, shape):
    work = work_named("_linalg_svd", function, three(*shape))
    assert work.flops == 3 * each and work.n_supersteps == 24


def test_pseudo_inverse_ends_in_a_product():
    work = work_named("linalg_pinv", torch.linalg.pinv, three(8, 4))
    (product,) = work.contractions
    assert (product.groups, product.rows, product.inner, product.columns) == (3, 4, 4, 8)
    assert count(work, VectorOp.ADD) == 3 * (6 * 8 * 16 + 20 * 64 + 16) and count(work, VectorOp.INVERSE) == 12


def test_matrix_exponential_is_five_products():
    work = work_named("linalg_matrix_exp", torch.linalg.matrix_exp, three())
    assert sum(c.flops for c in work.contractions) == 5 * 3 * 2 * 6**3
    assert count(work, VectorOp.ADD) == 4 * 3 * 36


def test_solving_is_lu_and_two_triangular_solves():
    work = work_named("_linalg_solve_ex", lambda x: torch.linalg.solve(x, torch.ones(6, 4)), three())
    assert count(work, VectorOp.ADD) == 3 * (2 * 6**3 / 3 + 2 * 6**2 * 4)
    assert (count(work, VectorOp.COMPARE), count(work, VectorOp.DIVIDE), work.n_supersteps) == (3 * 15, 3 * (15 + 24), 30)


def test_orthogonal_factor_costs_as_much_as_the_triangle():
    whole = work_named("linalg_qr", lambda x: torch.linalg.qr(x)[0], three(8, 4))
    triangle = work_named("linalg_qr", lambda x: torch.linalg.qr(x, mode="r")[1], three(8, 4))
    assert count(triangle, VectorOp.ADD) == pytest.approx(3 * 2 * 16 * (8 - 4 / 3)) and triangle.n_supersteps == 8
    assert count(whole, VectorOp.ADD) == 2 * count(triangle, VectorOp.ADD) and count(whole, VectorOp.SQRT) == 12


@pytest.mark.parametrize(("vectors", "each"), [(False, 4 / 3), (True, 9)], ids=["values", "vectors"])
def test_symmetric_eigenvalues_cost_more_with_vectors(vectors, each):
    work = work_named("_linalg_eigh", lambda x: torch.ops.aten._linalg_eigh(x, "L", vectors)[0], three())
    assert work.flops == pytest.approx(3 * each * 6**3) and work.n_supersteps == 24


def test_eigenvalues_of_any_matrix_take_twenty_five_n_cubed():
    for function in (torch.linalg.eigvals, lambda x: torch.linalg.eig(x)[1]):
        work = work_named("linalg_eig", lambda x, function=function: torch.view_as_real(function(x)), three())
        assert work.flops == 3 * 25 * 6**3 and work.n_supersteps == 24


def test_rectangular_lu_takes_its_square_and_the_rest():
    square = work_named("linalg_lu_factor_ex", lambda x: torch.linalg.lu_factor(x)[0], three(4))
    tall = work_named("linalg_lu_factor_ex", lambda x: torch.linalg.lu_factor(x)[0], three(7, 4))
    assert count(tall, VectorOp.ADD) - count(square, VectorOp.ADD) == pytest.approx(3 * 3 * 16)


@pytest.mark.parametrize("n", [8, 12])
def test_transform_of_real_numbers_is_half_of_a_complex_one(n):
    real = work_named("_fft_r2c", lambda x: torch.view_as_real(torch.fft.rfft(x)), torch.randn(5, n))
    whole = work_named("_fft_c2c", lambda x: torch.view_as_real(torch.fft.fft(torch.complex(x, x))), torch.randn(5, n))
    back = work_named("_fft_c2r", lambda x: torch.fft.irfft(torch.complex(x, x), n=n), torch.randn(5, n // 2 + 1))
    assert real.flops == back.flops == pytest.approx(5 * 2.5 * n * math.log2(n))
    assert whole.flops == pytest.approx(2 * real.flops)
    assert real.n_supersteps == math.ceil(math.log2(n)) and real.moved_bytes == 5 * n * 4 * real.n_supersteps


def test_transform_in_two_dimensions_is_of_all_their_elements():
    work = work_named("_fft_r2c", lambda x: torch.view_as_real(torch.fft.rfft2(x)), torch.randn(5, 4, 8))
    assert work.flops == 5 * 2.5 * 32 * 5


def test_affine_grid_is_a_product_of_positions():
    work = work_named("affine_grid_generator", lambda x: F.affine_grid(x, (2, 1, 5, 7), align_corners=False), torch.randn(2, 2, 3))
    (product,) = work.contractions
    assert product.flops == work.flops == 2 * 2 * (5 * 7) * 3 * 2


def test_fractional_pooling_reads_its_windows():
    samples = torch.full((1, 2, 2), 0.3)
    work = work_named("fractional_max_pool2d", lambda x, s: F.fractional_max_pool2d(x, (2, 3), (4, 4), _random_samples=s),
                      torch.randn(1, 2, 9, 9), samples)  # fmt: skip
    assert work.vector == ((VectorOp.REDUCE, float(2 * 16 * 6)),)


def test_isin_compares_all_pairs():
    work = work_named("isin", lambda x, y: torch.isin(x, y), torch.randn(3, 4), torch.randn(5))
    assert work.vector == ((VectorOp.COMPARE, 60.0), (VectorOp.REDUCE, 60.0))
    assert work_named("isin", lambda x: torch.isin(x, 2.0), torch.randn(3, 4)).flops == 24


def test_resizing_does_nothing():
    names = [op.name for op in ops_of(lambda x: torch.empty(0).resize_as_(x).copy_(x) + x, torch.randn(3, 4))]
    assert "aten::resize_as_" not in names and "aten::add" in names


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.fft.rfft(x).abs(),
        lambda x: torch.fft.irfft(torch.fft.rfft(x)),
        torch.linalg.det,
        lambda x: torch.linalg.slogdet(x)[1],
        lambda x: torch.linalg.svd(x, full_matrices=False)[0],
        lambda x: torch.linalg.cholesky(x @ x.mT + 9 * torch.eye(4)),
        torch.linalg.inv,
        torch.linalg.pinv,
        torch.linalg.matrix_exp,
        lambda x: F.affine_grid(x[:, :2, :3].contiguous(), (2, 1, 5, 7), align_corners=False),
        lambda x: F.fractional_max_pool2d(x, 2, 2, _random_samples=torch.full((1, 2, 2), 0.3)),
        lambda x: torch.fft.fft2(x).abs(),
    ],
    ids=["rfft", "irfft", "det", "slogdet", "svd", "cholesky", "inv", "pinv", "exp", "affine_grid", "fractional_pool", "fft2"],
)
def test_gradient_costs_something_too(function):
    x = torch.randn(2, 4, 4)
    forward, both = (sum(op.work.flops for op in ops_of(function, x, training=t)) for t in (False, True))
    assert 0 < forward < both
