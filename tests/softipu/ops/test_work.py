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
    with pytest.raises(UnknownOpError, match=r"'aten::special_zeta'.*has no work rule.*softipu/ops .*@work_rule\('special_zeta'\)"):
        ops_of(lambda x: torch.special.zeta(x, 2.0), torch.randn(4, 4))


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


def work_of_op(name, function, *inputs):
    return [op.work for op in ops_of(function, *inputs) if op.name == f"aten::{name}"][-1]


def test_complex_numbers_are_two_words_and_twice_the_arithmetic():
    x = torch.randn(6, 4)
    made = work_of_op("complex", lambda a: torch.view_as_real(torch.complex(a, a) + 1), x)
    assert (made.bytes_read, made.bytes_written) == (96.0, 192.0)
    added = work_of_op("add", lambda a, b: torch.view_as_real(torch.complex(a, a) + torch.complex(b, b)), x, x)
    assert (added.flops, added.bytes_read, added.bytes_written) == (48, 384.0, 192.0)
    multiplied = work_of_op("mul", lambda a, b: torch.view_as_real(torch.complex(a, a) * torch.complex(b, b)), x, x)
    assert multiplied.flops == 6 * 24
    product = work_of_op("mm", lambda a, b: torch.view_as_real(torch.complex(a, a) @ torch.complex(b, b)), x, x.t().contiguous())
    assert product.flops == 4 * 2 * 6 * 4 * 6


def test_memory_of_complex_numbers_is_two_words():
    class Spectrum(nn.Module):
        def __init__(self):
            super().__init__()
            self.filter = nn.Parameter(torch.ones(5, dtype=torch.complex64))

        def forward(self, x):
            return torch.fft.irfft(torch.fft.rfft(x) * self.filter, n=8)

    step = capture(Spectrum(), lambda t: [loss_of(Spectrum()(*t))], [torch.randn(3, 8)], training=False)
    assert {b.bytes for b in read_step(step).buffers if b.bytes == 3 * 5 * 8} == {120.0}
    module = Spectrum()
    step = capture(module, lambda t: [loss_of(module(*t))], [torch.randn(3, 8)], training=True)
    (parameter,) = read_step(step).parameters
    assert (parameter.elements, parameter.element_bytes) == (5, 8) and read_step(step).buffers[parameter.buffer].bytes == 40.0


def test_64_bit_numbers_are_one_word():
    work = work_of_op("add", lambda a, i: i + i, torch.ones(2), torch.arange(10))
    assert (work.bytes_read, work.bytes_written) == (40.0, 40.0)


@pytest.mark.parametrize(
    ("name", "function", "kinds"),
    [
        ("special_bessel_j0", torch.special.bessel_j0, (VectorOp.ERF, VectorOp.TRIGONOMETRY, VectorOp.RSQRT)),
        ("i0", torch.special.i0, (VectorOp.ERF, VectorOp.EXP)),
        ("special_modified_bessel_k1", torch.special.modified_bessel_k1, (VectorOp.ERF, VectorOp.LOG, VectorOp.RSQRT)),
        ("special_entr", torch.special.entr, (VectorOp.LOG, VectorOp.ADD)),
        ("linalg_cross", lambda a: torch.linalg.cross(a, a.flip(0)), (VectorOp.ADD,) * 3),
    ],
)
def test_special_functions_take_several_kinds_of_arithmetic_an_element(name, function, kinds):
    work = work_of_op(name, function, torch.rand(5, 3) + 0.5)
    assert work.vector == tuple((kind, 15.0) for kind in kinds) and work.n_supersteps == 1


def test_padding_of_volumes_moves_what_comes_out():
    work = work_of_op("replication_pad3d", lambda a: F.pad(a, (1, 1, 0, 0, 1, 0), mode="replicate"), torch.randn(1, 2, 3, 4, 5))
    assert work.moved_bytes == 4 * 2 * 4 * 4 * 7


def test_gradient_of_weights_of_a_bag_reads_every_row_again():
    def bag(weights, table, indices):
        return F.embedding_bag(indices, table * weights.mean(), per_sample_weights=weights, mode="sum")

    indices = torch.tensor([[0, 1], [2, 2], [3, 0]])
    ops = ops_of(bag, torch.ones(3, 2), torch.randn(4, 5), indices, training=True)
    (work,) = [op.work for op in ops if op.name == "aten::_embedding_bag_per_sample_weights_backward"]
    assert work.vector == ((VectorOp.ADD, 30.0), (VectorOp.REDUCE, 30.0)) and work.moved_bytes == 120
