"""Work rules against torch's own counter of FLOPs, and by hand."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from softipu.capture import capture, mark_loss
from softipu.capture.random_ops import seed_random_ops
from softipu.cost.workload import read_step
from softipu.errors import UnknownOpError
from softipu.ops import VectorOp, known_ops, work_of
from softipu.passes import run_passes


class Weighted(nn.Module):
    """``function`` of the input times a weight, so that a backward pass exists."""

    def __init__(self, function):
        super().__init__()
        self.weight, self.function = nn.Parameter(torch.ones(())), function

    def forward(self, *tensors):
        return self.function(tensors[0] * self.weight, *tensors[1:])


def ops_of(function, *inputs, training=False, dtype=torch.float32):
    module = (function if isinstance(function, nn.Module) else Weighted(function)).to(dtype)
    if not training:
        step = capture(module, lambda t: [module(*t)], list(inputs), training=False)
    else:
        step = capture(module, lambda t: [loss_of(module(*t))], list(inputs), training=True)
    step, _ = run_passes(seed_random_ops(step))
    return read_step(step).ops


def loss_of(value):
    loss = value.float().square().sum()
    mark_loss(loss, explicit=True)
    return loss


def matrix_flops(ops):
    return sum(c.flops for op in ops for c in op.work.contractions)


PRODUCTS = {
    "linear": (lambda: nn.Linear(12, 20), (5, 12)),
    "convolution": (lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1), (2, 4, 9, 9)),
    "attention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), (2, 5, 8)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_matrix_flops_of_forward_and_backward_are_torchs(name):
    flop_counter = pytest.importorskip("torch.utils.flop_counter", reason="counts FLOPs from PyTorch 2.1 on")
    make, shape = PRODUCTS[name]
    inner = make()

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x, x, x)[0] if name == "attention" else self.inner(x)

    x = torch.randn(*shape)
    model = Model()
    counter = flop_counter.FlopCounterMode(display=False)
    with counter:
        model(x).square().sum().backward()
    assert matrix_flops(ops_of(model, x, training=True)) == counter.get_total_flops()


def test_linear_layer_takes_its_products_and_one_addition_per_result():
    (forward,) = [op.work for op in ops_of(nn.Linear(12, 20), torch.randn(5, 12)) if op.work.contractions]
    assert forward.flops == 2 * 5 * 12 * 20 + 5 * 20


def test_gradients_of_a_grouped_convolution_take_twice_its_products():
    # Two 3 x 3 taps of 1 input channel for each of 8 outputs at 7 x 7 positions of 2 images; torch's counter ignores groups here.
    forward = 2 * (2 * 7 * 7) * 8 * 1 * 9
    model = nn.Sequential(nn.Conv2d(4, 4, 1), nn.Conv2d(4, 8, 3, groups=4))
    first = 2 * (2 * 9 * 9) * 4 * 4
    ops = ops_of(model, torch.randn(2, 4, 9, 9), training=True)
    # The gradient by the images themselves is not asked for.
    assert matrix_flops(ops) == 3 * forward + 2 * first


def test_half_is_counted_as_half_though_software_computes_in_float():
    works = [op.work for op in ops_of(nn.Linear(12, 20), torch.randn(5, 12).half(), dtype=torch.float16)]
    assert [c.bits for work in works for c in work.contractions] == [16]
    assert not [op for op in ops_of(nn.Linear(12, 20), torch.randn(5, 12).half(), dtype=torch.float16) if op.name == "aten::_to_copy"]


def test_views_do_nothing():
    names = [op.name for op in ops_of(lambda x: x.t().reshape(-1).unsqueeze(0)[:, 2:].exp(), torch.randn(3, 4))]
    assert "aten::exp" in names and not {"aten::t", "aten::unsqueeze", "aten::slice"} & set(names)


def test_a_transpose_that_is_written_out_moves_its_bytes():
    (clone,) = [op.work for op in ops_of(lambda x: x.t().contiguous(), torch.randn(6, 4)) if op.name == "aten::clone"]
    assert clone.moved_bytes == 6 * 4 * 4


def test_exponential_of_n_elements_is_n_exponentials():
    (work,) = [op.work for op in ops_of(torch.exp, torch.randn(6, 4)) if op.name == "aten::exp"]
    assert work.vector == ((VectorOp.EXP, 24.0),) and work.n_supersteps == 1
    assert (work.bytes_read, work.bytes_written) == (96.0, 96.0)


def test_division_by_a_number_is_a_multiplication():
    (work,) = [op.work for op in ops_of(lambda x: x / 3, torch.randn(6, 4)) if op.name == "aten::div"]
    assert work.vector == ((VectorOp.SCALE, 24.0),)


def test_dropout_draws_one_number_per_element():
    ops = ops_of(lambda x: F.dropout(x, 0.5, training=True), torch.randn(6, 4))
    drawn = [n for op in ops for kind, n in op.work.vector if kind is VectorOp.RANDOM]
    assert drawn == [24.0]


def test_embedding_moves_its_rows():
    indices = torch.zeros(3, 5, dtype=torch.long)
    (work,) = [op.work for op in ops_of(nn.Embedding(100, 8), indices) if op.name == "aten::embedding"]
    assert work.moved_bytes == 3 * 5 * 8 * 4


def test_op_without_a_rule_is_an_error_that_says_where_to_add_one():
    with pytest.raises(UnknownOpError, match=r"'aten::_linalg_eigh'.*has no work rule.*softipu/ops .*@work_rule\('_linalg_eigh'\)"):
        ops_of(lambda x: torch.linalg.eigvalsh(x), torch.randn(4, 4))


def test_work_of_a_placeholder_is_nothing():
    graph = torch.fx.Graph()
    assert work_of(graph.placeholder("x")).is_free


def test_known_ops_cover_every_family_of_the_design():
    wanted = (
        "mm addmm bmm convolution convolution_backward native_layer_norm native_batch_norm_backward _softmax embedding "
        "max_pool2d_with_indices add sum index clone view bernoulli_ nll_loss_forward _thnn_fused_lstm_cell "
        "_foreach_add_ _fused_adam_ sort upsample_nearest2d"
    )
    assert {f"aten::{name}" for name in wanted.split()} <= set(known_ops())


@pytest.mark.parametrize(
    "function",
    [
        torch.angle,
        torch.sinc,
        torch.trace,
        torch.diag_embed,
        lambda x: torch.dist(x, x + 1, 3.0),
        lambda x: torch.diagonal_scatter(x, x[0]),
    ],
    ids=["angle", "sinc", "trace", "diag_embed", "dist", "diagonal_scatter"],
)
def test_op_has_work(function):
    assert any(not op.work.is_free for op in ops_of(function, torch.randn(4, 4)))
