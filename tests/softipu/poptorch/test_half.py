"""Half next to float: result types, and arithmetic with float partials."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from softipu import poptorch
from tests.softipu.small_models import MODELS

HALF, FLOAT = torch.float16, torch.float32


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def run(function, *args):
    return poptorch.inferenceModel(Call(function))(*args)


@pytest.mark.parametrize("first, second", [(HALF, FLOAT), (FLOAT, HALF), (HALF, HALF)])
@pytest.mark.parametrize(
    "function, shapes",
    [
        (lambda x, w: F.linear(x, w), ((2, 3), (4, 3))),
        (lambda x, w: x @ w, ((2, 3), (3, 4))),
        (lambda x, w: torch.bmm(x, w), ((2, 2, 3), (2, 3, 4))),
        (lambda x, w: F.conv2d(x, w), ((1, 2, 4, 4), (3, 2, 3, 3))),
        (lambda x, w: F.layer_norm(x, (3,), w), ((2, 3), (3,))),
    ],
    ids=["linear", "matmul", "bmm", "conv2d", "layer_norm"],
)
def test_weights_follow_the_type_of_activations(function, shapes, first, second):
    torch.manual_seed(0)
    x, w = torch.randn(shapes[0]).to(first), torch.randn(shapes[1]).to(second)
    got = run(function, x, w)
    assert got.dtype == first
    torch.testing.assert_close(got.float(), function(x.float(), w.to(first).float()), rtol=2e-3, atol=2e-3)


def test_elementwise_half_and_float_gives_float_and_half_with_numbers_stays_half():
    x = torch.ones(3, dtype=HALF)
    assert run(lambda a, b: a + b, x, torch.ones(3)).dtype == FLOAT
    assert run(lambda a: a * 2.0, x).dtype == HALF


def test_sums_are_kept_in_float_and_rounded_once():
    x = torch.full((1, 4096), 1.0, dtype=HALF)
    x[0, 0] = 2048.0  # 2048 + 1 is 2048 in half
    assert run(lambda a: a.sum(), x).item() == 6144.0
    assert run(lambda a: F.linear(a, torch.ones(1, 4096, dtype=HALF)), x).item() == 6144.0


def test_in_place_ops_on_half_reach_views_and_inputs():
    def change(x):
        x[0].mul_(2).exp_()
        return x.sum()

    x = torch.ones(2, 2, dtype=HALF)
    run(change, x)
    torch.testing.assert_close(x.float(), torch.tensor([[7.389, 7.389], [1.0, 1.0]]), rtol=1e-3, atol=0)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_half_models_train_close_to_float(model):
    torch.manual_seed(0)
    host = model()
    device = copy.deepcopy(host).half()
    batch = model.batch(16, torch.Generator().manual_seed(0))
    half_batch = [t.half() if t.is_floating_point() else t for t in batch]
    optimizer = torch.optim.SGD(host.parameters(), lr=0.1)
    executor = poptorch.trainingModel(device, None, poptorch.optim.SGD(device.parameters(), lr=0.1, loss_scaling=16.0))
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = host(*batch)
        loss.backward()
        optimizer.step()
        losses.append((executor(*half_batch).item(), loss.item()))
    assert losses[-1][0] < losses[0][0]
    for got, want in losses:
        assert got == pytest.approx(want, rel=3e-2, abs=1e-2)
    assert all(p.dtype == HALF for p in device.parameters())


def test_loss_scaling_saves_small_gradients_from_underflow():
    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.zeros((), dtype=HALF))

        def forward(self, x):
            return poptorch.identity_loss((self.w * x).sum() * 1e-3, "none")

    def step(scale):
        model = Tiny()
        executor = poptorch.trainingModel(model, None, poptorch.optim.SGD(model.parameters(), lr=1e5, loss_scaling=scale))
        executor(torch.full((1,), 1e-5, dtype=HALF))
        return model.w.item()

    assert step(1.0) == 0.0
    assert step(1024.0) == pytest.approx(-1e-3, rel=5e-2)


@pytest.mark.parametrize("function, index", [
    (lambda x, i: F.cross_entropy(x, i), (0, 2)), (lambda x, i: F.nll_loss(x, i), (0, 2)),
    (lambda x, i: x.gather(1, i.view(2, 1)), (0, 2)), (lambda x, i: F.embedding(i, x), (0, 1)), (lambda x, i: F.one_hot(i, 3), (0, 2)),
])  # fmt: skip
def test_int32_indices_work_as_int64(function, index):
    x = torch.arange(6.0).view(2, 3)
    torch.testing.assert_close(run(function, x, torch.tensor(index, dtype=torch.int32)).float(), function(x, torch.tensor(index)).float())


def test_half_layers_in_blocks_run_on_the_ipus_of_their_blocks():
    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = poptorch.BeginBlock(nn.Linear(6, 8), ipu_id=0)
            self.second = poptorch.BeginBlock(nn.Linear(8, 3), ipu_id=1)

        def forward(self, x, y):
            return poptorch.identity_loss(F.cross_entropy(self.second(torch.tanh(self.first(x))), y), "none")

    options = poptorch.Options()
    options.Training.gradientAccumulation(3)
    model = Split().half()
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    assert torch.isfinite(trainer(torch.randn(6, 6).half(), torch.randint(0, 3, (6,))))


class Margins(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.scale, self.function = nn.Parameter(torch.ones(())), function

    def forward(self, x, target):
        return self.function(x * self.scale, target)


MAPS = torch.arange(24.0).reshape(2, 3, 4).sin()


@pytest.mark.parametrize("function, x, target", [
    (F.multi_margin_loss, MAPS[0], torch.tensor([0, 3, 1])),
    (F.multilabel_margin_loss, MAPS[0], torch.tensor([[0, 2, -1, 1], [1, -1, 0, 0], [3, 2, 1, 0]])),
    (lambda x, t: F.nll_loss(F.log_softmax(x, 1), t), MAPS, torch.tensor([[0, 1, 2, 0], [2, 2, 1, 1]])),
    (lambda x, t: F.cross_entropy(x.unsqueeze(-1), t.unsqueeze(-1)), MAPS, torch.tensor([[0, 1, 2, 0], [2, 2, 1, 1]])),
], ids=["multi margin", "multilabel margin", "nll of maps", "cross entropy of maps"])  # fmt: skip
def test_losses_without_half_kernels_train_in_half(function, x, target):
    host, model = Margins(function), Margins(function).half()
    loss = host(x.half().float(), target)
    loss.backward()
    trainer = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5))
    got = trainer(x.half(), target)
    assert got.dtype == HALF
    torch.testing.assert_close(got.float(), loss.detach(), rtol=4e-3, atol=4e-3)
    torch.testing.assert_close(model.scale.detach().float(), 1.0 - 0.5 * host.scale.grad, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("weight", [HALF, FLOAT])
def test_linear_layer_of_one_row_keeps_its_shape(weight):
    layer = nn.Linear(6, 4).to(weight)
    x = torch.linspace(-1.0, 1.0, 6).to(HALF)
    got = poptorch.inferenceModel(layer)(x)
    assert got.shape == (4,) and got.dtype == HALF
    torch.testing.assert_close(got.float(), F.linear(x.float(), layer.weight.float(), layer.bias.float()).detach(), rtol=2e-3, atol=2e-3)


def test_bernoulli_draws_in_half():
    class Drawn(nn.Module):
        def forward(self, p):
            return torch.bernoulli(p), torch.empty_like(p).bernoulli_(p)

    for drawn in poptorch.inferenceModel(Drawn())(torch.full((4000,), 0.25, dtype=HALF)):
        assert drawn.dtype == HALF and set(drawn.tolist()) == {0.0, 1.0}
        assert drawn.float().mean().item() == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize("dtype", [HALF, FLOAT])
def test_randomised_leaky_relu_draws_slopes_in_training_and_takes_their_mean_else(dtype):
    x = torch.linspace(-4.0, 4.0, 2001).to(dtype)
    below = x < 0
    drawn = poptorch.inferenceModel(nn.RReLU(0.25, 0.5).train())(x)
    slopes = (drawn / x)[below].float()
    assert drawn.dtype == dtype and torch.equal(drawn[~below], x[~below])
    assert 0.24 < slopes.min() < 0.27 and 0.48 < slopes.max() < 0.51
    fixed = poptorch.inferenceModel(nn.RReLU(0.25, 0.5).eval())(x)
    torch.testing.assert_close(fixed[below].float(), 0.375 * x[below].float(), rtol=1e-3, atol=1e-6)


def test_sign_has_a_gradient_of_zero():
    class Signs(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.tensor([2.0, -3.0]))

        def forward(self):
            return poptorch.identity_loss((torch.sgn(self.w) + self.w).sum(), "none")

    model = Signs()
    poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5))()
    assert model.w.tolist() == [1.5, -3.5]
