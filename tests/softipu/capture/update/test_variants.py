"""Rules that torch.optim does not have: LAMB, TensorFlow's RMSprop, SGD with combined accumulators."""

import math

import pytest
import torch

from softipu.poptorch import optim


def _lamb_reference(weight, gradients, lr, betas, eps, decay, max_norm, correct):
    """Algorithm 2 of You et al. 2020 in float64 Python, one element list at a time."""
    w = [float(x) for x in weight.flatten()]
    m, v = [0.0] * len(w), [0.0] * len(w)
    for t, gradient in enumerate(gradients, start=1):
        g = [float(x) for x in gradient.flatten()]
        m = [betas[0] * a + (1 - betas[0]) * b for a, b in zip(m, g)]
        v = [betas[1] * a + (1 - betas[1]) * b * b for a, b in zip(v, g)]
        c1, c2 = (1 - betas[0] ** t, 1 - betas[1] ** t) if correct else (1.0, 1.0)
        u = [a / c1 / (math.sqrt(b / c2) + eps) + decay * x for a, b, x in zip(m, v, w)]
        norm_w, norm_u = min(math.sqrt(sum(x * x for x in w)), max_norm), math.sqrt(sum(x * x for x in u))
        trust = norm_w / norm_u if norm_w and norm_u else 1.0
        w = [x - lr * trust * y for x, y in zip(w, u)]
    return torch.tensor(w).reshape(weight.shape)


@pytest.mark.parametrize("correct", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("max_norm", [None, 2.0])
def test_lamb_follows_its_paper(side_by_side, form, correct, decay, max_norm):
    def make(parameters):
        return optim.LAMB(
            parameters, lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=decay, bias_correction=correct, max_weight_norm=max_norm
        )

    pair = side_by_side(make, form=form)
    start = {name: t.clone() for name, t in pair.device.items()}
    history = [pair.gradients() for _ in range(100)]
    for gradients in history:
        for name, p in pair.host.items():
            p.grad = gradients[name].clone()
        pair.optimizer.step()
        pair.step_device(gradients)
    pair.check()
    for name, t in pair.device.items():
        limit = math.inf if max_norm is None else max_norm
        expected = _lamb_reference(start[name], [g[name] for g in history], 0.01, (0.8, 0.95), 1e-6, decay, limit, correct)
        assert (t - expected).abs().max() <= 1e-6 * expected.abs().max()


def test_lamb_trusts_a_zero_weight_fully(side_by_side, form):
    pair = side_by_side(lambda p: optim.LAMB(p, lr=0.1, weight_decay=0.0), {"w": torch.zeros(3)}, form=form)
    pair.step_device({"w": torch.tensor([1.0, -2.0, 0.0])})
    torch.testing.assert_close(pair.device["w"], torch.tensor([-0.1, 0.1, 0.0]))


def test_lamb_does_not_move_without_a_gradient_or_decay(side_by_side, form):
    pair = side_by_side(lambda p: optim.LAMB(p, lr=0.1, weight_decay=0.0), {"w": torch.ones(3)}, form=form)
    pair.step_device({"w": torch.zeros(3)})
    assert pair.device["w"].tolist() == [1.0, 1.0, 1.0]


def test_lamb_groups_have_their_own_weight_norm_limit(side_by_side, form):
    def make(parameters):
        return optim.LAMB([{"params": parameters[:1], "max_weight_norm": 0.5}, {"params": parameters[1:]}], lr=0.1)

    pair = side_by_side(make, form=form)
    pair.step(10)
    pair.check()


def test_tensorflow_rmsprop_worked_example(side_by_side, form):
    pair = side_by_side(lambda p: optim.RMSprop(p, lr=0.1, alpha=0.99, use_tf_variant=True), {"w": torch.zeros(1)}, form=form)
    pair.step_device({"w": torch.tensor([2.0])})
    assert float(pair.device["w"]) == pytest.approx(-0.1 * 2 / math.sqrt(1.03 + 1e-8), rel=1e-6)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("centered", [True, False])
def test_tensorflow_rmsprop_reference(side_by_side, form, momentum, centered):
    def make(parameters):
        return optim.RMSprop(parameters, lr=0.01, eps=1e-3, weight_decay=0.1, momentum=momentum, centered=centered, use_tf_variant=True)

    pair = side_by_side(make, form=form)
    w = {name: t.double() for name, t in pair.device.items()}
    squares = {name: torch.ones_like(t) for name, t in w.items()}
    averages, buffers = ({name: torch.zeros_like(t) for name, t in w.items()} for _ in range(2))
    for lr in [0.01] * 50 + [0.002] * 50:
        pair.optimizer.param_groups[0]["lr"] = lr
        gradients = pair.gradients()
        pair.step_device(gradients)
        for name in w:
            g = gradients[name].double() + 0.1 * w[name]
            squares[name] = 0.99 * squares[name] + 0.01 * g * g
            averages[name] = 0.99 * averages[name] + 0.01 * g
            variance = squares[name] - averages[name] ** 2 if centered else squares[name]
            buffers[name] = momentum * buffers[name] + lr * g / (variance + 1e-3).sqrt()
            w[name] = w[name] - buffers[name]
    for name in w:
        assert (pair.device[name] - w[name]).abs().max() <= 1e-6 * w[name].abs().max()


@pytest.mark.parametrize("scaling", [1.0, 128.0])
def test_combined_accumulators_have_the_numbers_of_separate_ones(side_by_side, form, scaling):
    def combined(parameters):
        return optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=0.01, use_combined_accum=True, velocity_scaling=scaling)

    pair = side_by_side(combined, form=form)  # whose host side is torch's own, separate
    pair.step(100)
    pair.check()


def test_adamw_worked_example(side_by_side, form):
    pair = side_by_side(lambda p: optim.AdamW(p, lr=0.1, weight_decay=0.01), {"w": torch.ones(1)}, form=form)
    pair.step_device({"w": torch.ones(1)})
    assert float(pair.device["w"]) == pytest.approx(0.899, rel=1e-6)


def test_adamw_bias_correction_changes_no_number(side_by_side, form):
    on, off = (side_by_side(lambda p, flag=flag: optim.AdamW(p, lr=0.1, bias_correction=flag), form=form) for flag in (True, False))
    on.step(5)
    off.step(5)
    assert all(torch.equal(on.device[name], off.device[name]) for name in on.device)
