"""Inputs and outputs marked for overlapped transfer: what PopTorch refuses when it compiles."""

import pytest
import torch
from torch import nn

from softipu import poptorch
from softipu.poptorch import OutputMode, OverlapMode, set_overlap_for_input, set_overlap_for_output

LOOP = OverlapMode.OverlapAccumulationLoop
X = torch.tensor([1.0, 2.0])


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def run(function, *, sharded=True, tiles=32, mode=None):
    options = poptorch.Options()
    if sharded:
        options.setExecutionStrategy(poptorch.ShardedExecution())
    if tiles:
        options.TensorLocations.numIOTiles(tiles)
    if mode is not None:
        options.outputMode(mode)
    return poptorch.inferenceModel(Calls(function), options)(X.clone())


def input_beside_its_mark(x):
    return x + 1, set_overlap_for_input(x, LOOP)


def no_input(x):
    return set_overlap_for_input(set_overlap_for_input(x, LOOP) + 1, LOOP)


def input_in_a_list(x):
    (marked,) = set_overlap_for_input([x], LOOP)
    return marked * 3


def returned_twice(x):
    y = x + 1
    return y, [set_overlap_for_output(y, LOOP)]


def not_returned(x):
    return set_overlap_for_output(x * 2, LOOP).mean()


def returned_and_used_before_and_after(x):
    y = x + 1
    before = y * 2
    marked = set_overlap_for_output(y, LOOP)
    return marked, before, marked * 3


@pytest.mark.parametrize(
    "function, message",
    [
        (input_beside_its_mark, r"set_overlap_for_input must be the only op applied to an input\. This is not the case for input x"),
        (no_input, r"set_overlap_for_input applied on a node which is not a tensor input to the model"),
        (returned_twice, r"set_overlap_for_output cannot be used with a tensor that is returned twice"),
        (not_returned, r"set_overlap_for_output applied on a node which is not a tensor output to the model"),
    ],
)
@pytest.mark.parametrize("sharded", [True, False])
def test_a_mark_in_the_wrong_place_is_refused_whatever_the_options(function, message, sharded):
    with pytest.raises(poptorch.Error, match=message):
        run(function, sharded=sharded)


@pytest.mark.parametrize("function", [input_in_a_list, returned_and_used_before_and_after])
def test_options_must_allow_overlap(function):
    with pytest.raises(poptorch.Error, match=r"not supported with poptorch.PipelinedExecution.*switch to poptorch.ShardedExecution"):
        run(function, sharded=False)
    with pytest.raises(
        poptorch.Error, match=r"You must allocate at least 32 IO tiles using poptorch.Options\(\).TensorLocations.numIOTiles"
    ):
        run(function, tiles=0)


def test_overlapped_outputs_need_all_or_sum():
    with pytest.raises(poptorch.Error, match="need the output mode All or Sum, given Final"):
        run(returned_and_used_before_and_after, mode=OutputMode.Final)
    assert run(input_in_a_list, mode=OutputMode.Final).tolist() == [3.0, 6.0]


def test_values_are_those_without_marks():
    assert run(input_in_a_list).tolist() == [3.0, 6.0]
    results = run(returned_and_used_before_and_after)
    assert [r.tolist() for r in results] == [[2.0, 3.0], [4.0, 6.0], [6.0, 9.0]]


def test_no_overlap_is_no_mark():
    def forward(x):
        return set_overlap_for_output(set_overlap_for_input(x + 1, OverlapMode.NoOverlap), OverlapMode.NoOverlap) * 2

    assert run(forward, sharded=False, tiles=0).tolist() == [4.0, 6.0]


def test_a_training_step_with_marks_gives_the_gradients_of_one_without():
    class Marked(nn.Module):
        def __init__(self, mark):
            super().__init__()
            torch.manual_seed(0)
            self.linear, self.mark = nn.Linear(2, 1), mark

        def forward(self, x):
            x = set_overlap_for_input(x, LOOP) if self.mark else x
            loss = poptorch.identity_loss(self.linear(x), "sum")
            return set_overlap_for_output(loss, LOOP) if self.mark else loss

    weights = []
    for mark in (True, False):
        options = poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution()).outputMode(OutputMode.All)
        options.TensorLocations.numIOTiles(64)
        model = Marked(mark)
        poptorch.trainingModel(model, options)(X.view(1, 2))
        weights.append(model.linear.weight.detach().clone())
    assert torch.equal(*weights)
