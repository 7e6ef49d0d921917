"""Workloads between two captures are those that a capture gives."""

import pytest
import torch
from torch import nn

from softipu.cost.workload import read_step
from softipu.passes import run_passes
from softipu.planner.micro_batches import MicroBatches, NotLinear, between
from tests.softipu.captured import captured
from tests.softipu.small_models import MODELS, Mlp, ResidualNet


def step_of(model, n):
    return run_passes(captured(model, model.batch(n, torch.Generator().manual_seed(0))))[0]


@pytest.mark.parametrize("model", MODELS)
def test_a_workload_between_is_what_a_capture_gives(model):
    module = model()
    asked = []
    batches = MicroBatches(lambda n: asked.append(n) or step_of(module, n), 2)
    assert batches.at(8) == read_step(step_of(module, 8))
    assert batches.at(3) == read_step(step_of(module, 3))
    assert asked == [2, 4]


def test_smaller_than_the_first_is_found_too():
    module = ResidualNet()
    assert MicroBatches(lambda n: step_of(module, n), 4).at(2) == read_step(step_of(module, 2))


def test_the_first_alone_needs_one_capture():
    asked = []
    MicroBatches(lambda n: asked.append(n) or step_of(Mlp(), n), 4).at(4)
    assert asked == [4]


class Moody(nn.Module):
    """Does more for larger batches."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 3)

    def forward(self, x, y):
        for _ in range(x.shape[0]):
            x = x.tanh()
        return nn.functional.cross_entropy(self.body(x), y)

    batch = staticmethod(Mlp.batch)


def test_a_step_that_differs_by_size_is_captured_for_each():
    module = Moody()
    asked = []
    batches = MicroBatches(lambda n: asked.append(n) or step_of(module, n), 2)
    assert batches.at(5) == read_step(step_of(module, 5))
    assert batches.at(3) == read_step(step_of(module, 3))
    assert asked == [2, 4, 5, 3]
    with pytest.raises(NotLinear):
        between(read_step(step_of(module, 2)), read_step(step_of(module, 3)), 2, 3, 4)
