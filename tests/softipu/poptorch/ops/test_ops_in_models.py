"""The plain operations inside an inference model: compiled with some values, they give the right results for others."""

import pytest
import torch

from softipu.poptorch import MatMulSerializationMode, Options, OverlapMode, ShardedExecution, inferenceModel
from softipu.poptorch.ops.cast import cast
from softipu.poptorch.ops.ctc_beam_search import ctc_beam_search_decoder
from softipu.poptorch.ops.dynamic_slice import dynamic_slice, dynamic_update
from softipu.poptorch.ops.farthest_points import fps
from softipu.poptorch.ops.hints import nop, recomputationCheckpoint, set_available_memory
from softipu.poptorch.ops.nearest import nearest
from softipu.poptorch.ops.overlap import set_overlap_for_input, set_overlap_for_output
from softipu.poptorch.ops.serialized_matmul import serializedMatMul


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def _hinted(a, b):
    a = set_overlap_for_input(a, OverlapMode.OverlapAccumulationLoop)
    product = serializedMatMul(nop(a), recomputationCheckpoint(b), MatMulSerializationMode.InputChannels, 2)
    return set_overlap_for_output(set_available_memory(product, 0.3), OverlapMode.OverlapAccumulationLoop)


POINTS = torch.rand(9, 3, generator=torch.Generator().manual_seed(0))
BATCH = torch.tensor([0] * 4 + [1] * 5, dtype=torch.int32)
LOG_PROBS = torch.randn(4, 2, 4, generator=torch.Generator().manual_seed(0)).log_softmax(2)


@pytest.mark.parametrize(
    "function, inputs",
    [
        pytest.param(
            lambda p, n: ctc_beam_search_decoder(p, n, 0, 4, 2), (LOG_PROBS, torch.tensor([3, 4], dtype=torch.int32)), id="ctc_beam_search"
        ),
        pytest.param(lambda p: fps(p, [0, 4, 9], 0.5), (POINTS,), id="fps"),
        pytest.param(lambda p: fps(p, [0, 4, 9], 1.0, random_start=True).sort()[0], (POINTS,), id="fps, random start"),
        pytest.param(lambda p, q: nearest(p, q, [0] * 4 + [1] * 5, [0, 1]), (POINTS, POINTS[3:5]), id="nearest, lists"),
        pytest.param(nearest, (POINTS, POINTS[3:5], BATCH, BATCH[3:5]), id="nearest, tensors"),
        pytest.param(lambda t, start: dynamic_slice(t, 0, start, 4, 1), (torch.arange(8.0), torch.tensor([6])), id="dynamic_slice"),
        pytest.param(
            lambda t, s, start: dynamic_update(t, s, 0, start, 2),
            (torch.arange(8.0), -torch.ones(2), torch.tensor([7])),
            id="dynamic_update",
        ),
        pytest.param(_hinted, (torch.rand(4, 6), torch.rand(6, 8)), id="hints"),
        pytest.param(lambda t: cast(t, torch.int32), (torch.arange(4.0),), id="cast"),
    ],
)
def test_results_are_those_of_the_host(function, inputs):
    options = Options().setExecutionStrategy(ShardedExecution())
    options.TensorLocations.numIOTiles(32)
    model = inferenceModel(Calls(function), options)
    model.compile(*(torch.zeros_like(value) for value in inputs))
    results, expected = model(*inputs), function(*inputs)
    if isinstance(expected, torch.Tensor):
        results, expected = [results], [expected]
    for result, value in zip(results, expected):
        assert torch.allclose(result.to(torch.float64), value.to(torch.float64))
