"""Un-scaling and clipping before the rule."""

import math

import pytest
import torch

from softipu.capture.update import build_update, hyper_values, new_state, read_optimizer


def _one_step(parameters, gradients, form, scale=None, limit=None):
    optimizer = torch.optim.SGD(list(parameters.values()), lr=1.0)
    spec = read_optimizer(optimizer, parameters)
    update = build_update(spec, parameters, form=form, scaled=scale is not None, clipped=limit is not None)
    extra = [value for value in (scale, limit) if value is not None]
    hyper = [*hyper_values(optimizer, spec), *extra]
    if form == "elementwise":
        hyper = [torch.tensor(value, dtype=torch.float64) for value in hyper]
    assert update.names("hyper") == ("lr_0",) + ("gradient_scale",) * (scale is not None) + ("max_grad_norm",) * (limit is not None)
    with torch.no_grad():
        update.graph_module(*parameters.values(), *[g.clone() for g in gradients], *new_state(update, parameters).values(), *hyper)


def test_gradients_three_and_four_clip_to_norm_one(form):
    w = {"a": torch.zeros(1), "b": torch.zeros(1)}
    _one_step(w, [torch.tensor([3.0]), torch.tensor([4.0])], form, limit=1.0)
    torch.testing.assert_close(torch.cat(list(w.values())), torch.tensor([-0.6, -0.8]), rtol=1e-6, atol=0)


@pytest.mark.parametrize("limit", [5.1, 1e9, math.inf])
def test_a_limit_that_is_not_reached_changes_nothing(form, limit):
    w = {"a": torch.zeros(1), "b": torch.zeros(1)}
    _one_step(w, [torch.tensor([3.0]), torch.tensor([4.0])], form, limit=limit)
    assert torch.cat(list(w.values())).tolist() == [-3.0, -4.0]


def test_the_norm_is_that_of_the_scaled_gradients(form):
    w = {"a": torch.zeros(1), "b": torch.zeros(1)}
    _one_step(w, [torch.tensor([300.0]), torch.tensor([400.0])], form, scale=0.01, limit=10.0)
    torch.testing.assert_close(torch.cat(list(w.values())), torch.tensor([-3.0, -4.0]))


def test_the_norm_spans_parameter_groups_and_types(form):
    w = {"a": torch.zeros(1), "b": torch.zeros(1, dtype=torch.float16), "c": torch.zeros(1, dtype=torch.float64)}
    optimizer_groups = [{"params": [w["c"]]}, {"params": [w["a"], w["b"]]}]
    spec = read_optimizer(torch.optim.SGD(optimizer_groups, lr=1.0), w)
    update = build_update(spec, w, form=form, clipped=True)
    by_name = {"a": torch.tensor([2.0]), "b": torch.tensor([3.0], dtype=torch.float16), "c": torch.tensor([6.0], dtype=torch.float64)}
    hyper = [1.0, 1.0, 0.7]
    if form == "elementwise":
        hyper = [torch.tensor(value, dtype=torch.float64) for value in hyper]
    with torch.no_grad():
        update.graph_module(*[w[n] for n in update.names("parameter")], *[by_name[n] for n in update.names("gradient")], *hyper)
    assert [round(float(w[n]), 3) for n in "abc"] == [-0.2, -0.3, -0.6]


def test_small_half_gradients_survive_unscaling(form):
    """1e-8 is 0 in half; with a loss scale of 1024 the gradient is 1.02e-5, and the update must see 1e-8."""
    w = {"a": torch.zeros(1, dtype=torch.float16)}
    gradient = torch.tensor([1e-8 * 1024], dtype=torch.float16)
    optimizer = torch.optim.SGD(list(w.values()), lr=1e6)
    spec = read_optimizer(optimizer, w)
    update = build_update(spec, w, form=form, scaled=True)
    hyper = [1e6, 1 / 1024]
    if form == "elementwise":
        hyper = [torch.tensor(value, dtype=torch.float64) for value in hyper]
    with torch.no_grad():
        update.graph_module(w["a"], gradient, *hyper)
    assert float(w["a"]) == pytest.approx(-0.01, rel=1e-2)


def test_without_the_flags_the_graph_has_no_such_operations(form):
    w = {"a": torch.zeros(3), "b": torch.zeros(2)}
    spec = read_optimizer(torch.optim.SGD(list(w.values()), lr=1.0), w)
    plain, full = (build_update(spec, w, form=form, scaled=on, clipped=on, dense_gradients=True) for on in (False, True))
    names = {str(node.target) for node in plain.graph_module.graph.nodes}
    assert not any("norm" in name or "clamp" in name or "contiguous" in name for name in names)
    assert len(plain.graph_module.graph.nodes) < len(full.graph_module.graph.nodes)


@pytest.mark.parametrize("rule", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_gradients_in_any_memory_order(form, rule):
    torch.manual_seed(0)
    start, gradient = torch.randn(4, 6), torch.randn(4, 6)
    results = []
    for given in (gradient.clone(), gradient.t().contiguous().t()):
        w = {"a": start.clone()}
        optimizer = rule(list(w.values()), lr=0.1)
        spec = read_optimizer(optimizer, w)
        update = build_update(spec, w, form=form)
        hyper = list(hyper_values(optimizer, spec))
        if form == "elementwise":
            hyper = [torch.tensor(value, dtype=torch.float64) for value in hyper]
        with torch.no_grad():
            update.graph_module(w["a"], given, *new_state(update, w).values(), *hyper)
        results.append(w["a"])
    assert torch.equal(*results)


def test_weights_in_channels_last_order(side_by_side, form):
    named = {"conv": torch.randn(4, 3, 2, 2).contiguous(memory_format=torch.channels_last), "fc": torch.randn(3, 2)}
    pair = side_by_side(lambda p: torch.optim.AdamW(p, lr=0.01), named, form=form)
    pair.step(10)
    pair.check()
    assert pair.device["conv"].is_contiguous(memory_format=torch.channels_last)
