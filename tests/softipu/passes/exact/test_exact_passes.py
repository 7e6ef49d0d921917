"""Exact passes keep every bit of a step's results, and do what they are for."""

import pytest
import torch
from torch import nn

from softipu.graph import Role
from softipu.passes import run_passes
from softipu.passes.exact.dead_code import DeadCode
from softipu.passes.exact.merge_views import MergeViews
from softipu.passes.exact.remove_aliases import RemoveAliases
from softipu.runtime.interpreter import compile_graph
from tests.softipu.captured import captured, inputs_of
from tests.softipu.small_models import MODELS

aten = torch.ops.aten
PASSES = [(RemoveAliases(),), (MergeViews(),), (DeadCode(),), (RemoveAliases(), MergeViews(), DeadCode())]


def results(step, model, batch):
    inputs = inputs_of(step, model, batch)
    returned = compile_graph(step.graph_module)(*inputs)
    return [*returned, *(t for t, value in zip(inputs, step.inputs) if value.role is Role.BUFFER)]


@pytest.mark.parametrize("passes", PASSES, ids=lambda p: "+".join(one.name for one in p))
@pytest.mark.parametrize("make", MODELS)
def test_every_bit_of_a_training_step_stays(make, passes):
    torch.manual_seed(0)
    model = make()
    batch = make.batch(4, torch.Generator().manual_seed(1))
    before = results(captured(model, batch), model, batch)
    after = results(run_passes(captured(model, batch), passes)[0], model, batch)
    assert len(before) == len(after)
    assert all(torch.equal(a, b) for a, b in zip(before, after))


def ops(step):
    return [n.target for n in step.graph_module.graph.nodes if n.op == "call_function"]


class Roundabout(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))

    def forward(self, x):
        unused = x.exp() + 1
        del unused
        y = x @ self.weight.t().t().t()
        return (y.detach() + y.view(-1)[:1]).sum() + y.view(-1)[:1].sum()


@pytest.fixture
def roundabout():
    torch.manual_seed(0)
    model = Roundabout()
    return captured(model, [torch.randn(2, 4)])


def test_aliases_are_gone(roundabout):
    assert aten.detach.default in ops(roundabout)
    after = ops(run_passes(roundabout, [RemoveAliases()])[0])
    assert aten.detach.default not in after and aten.alias.default not in after


def test_two_transposes_are_none_and_equal_views_are_one(roundabout):
    before = ops(roundabout)
    after = ops(run_passes(roundabout, [RemoveAliases(), MergeViews()])[0])
    assert before.count(aten.t.default) >= 3
    assert after.count(aten.t.default) <= before.count(aten.t.default) - 2
    assert after.count(aten.view.default) < before.count(aten.view.default)


def test_what_nobody_uses_is_gone(roundabout):
    assert aten.exp.default in ops(roundabout)
    assert aten.exp.default not in ops(run_passes(roundabout, [DeadCode()])[0])


def test_writes_are_never_dead():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x):
            self.count.add_(1)
            return (x * self.weight).sum()

    model = Counts()
    step = run_passes(captured(model, [torch.ones(2)]))[0]
    assert results(step, model, [torch.ones(2)])[-1].tolist() == [1.0, 1.0]
