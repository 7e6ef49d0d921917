"""Row order, output modes, reduction and buffers of one call: the worked numbers of PopTorch's semantics."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from softipu import poptorch
from softipu.poptorch import OutputMode, ReductionType


class Scale(nn.Module):
    """loss = mean(w * x); returns the loss and w."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return poptorch.identity_loss((self.w * x).mean(), "none"), self.w


class TimesTen(nn.Module):
    def forward(self, x):
        return x * 10, x.sum()


def make_options(d=1, a=1, r=1, mode=None, period=None):
    options = poptorch.Options().deviceIterations(d).replicationFactor(r)
    options.Training.gradientAccumulation(a)
    if mode is not None:
        options.outputMode(mode, period)
    return options


def train(values, options):
    model = Scale()
    executor = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    outputs = executor(torch.tensor(values))
    return outputs, model.w.item()


@pytest.mark.parametrize(
    "values, a, r, reduction, weight",
    [
        ([2.0, 4.0], 2, 1, ReductionType.Mean, -0.3),
        ([2.0, 4.0], 2, 1, ReductionType.Sum, -0.6),
        ([1.0, 2.0, 3.0, 4.0], 2, 2, ReductionType.Mean, -0.25),
        ([1.0, 2.0, 3.0, 4.0], 2, 2, ReductionType.Sum, -1.0),
    ],
)
def test_update_uses_mean_or_sum_over_accumulation_and_replicas(values, a, r, reduction, weight):
    options = make_options(a=a, r=r)
    options.Training.accumulationAndReplicationReductionType(reduction)
    assert train(values, options)[1] == pytest.approx(weight)


@pytest.mark.parametrize(
    "mode, losses, weights",
    [
        (OutputMode.All, [0, 0, -1.8, -2.4], [0, 0, -0.3, -0.3]),
        (OutputMode.Final, -2.4, -0.3),
        (OutputMode.Sum, -4.2, -0.6),
        (None, -2.4, -0.3),
    ],
)
def test_outputs_see_the_weights_before_their_update(mode, losses, weights):
    (loss, w), final = train([2.0, 4.0, 6.0, 8.0], make_options(d=2, a=2, mode=mode))
    torch.testing.assert_close(loss, torch.tensor(losses, dtype=torch.float32))
    torch.testing.assert_close(w, torch.tensor(weights, dtype=torch.float32))
    assert final == pytest.approx(-1.0)


@pytest.mark.parametrize(
    "d, r, rows, mode, period, first, second",
    [
        (2, 2, 4, OutputMode.All, None, [0, 10, 20, 30], [0, 1, 2, 3]),
        (2, 2, 4, None, None, [0, 10, 20, 30], [0, 1, 2, 3]),
        (2, 2, 4, OutputMode.Final, None, [20, 30], [2, 3]),
        (2, 2, 4, OutputMode.Sum, None, [20, 40], [2, 4]),
        (4, 1, 8, OutputMode.EveryN, 2, [20, 30, 60, 70], [5, 13]),
        (1, 1, 2, OutputMode.All, None, [0, 10], 1),
    ],
)
def test_output_modes(d, r, rows, mode, period, first, second):
    executor = poptorch.inferenceModel(TimesTen(), make_options(d=d, r=r, mode=mode, period=period))
    got = executor(torch.arange(rows, dtype=torch.float32))
    torch.testing.assert_close(got[0], torch.tensor(first, dtype=torch.float32))
    torch.testing.assert_close(got[1], torch.tensor(second, dtype=torch.float32))


@given(
    d=st.integers(1, 3), a=st.integers(1, 3), r=st.sampled_from([1, 2, 4]), mb=st.integers(1, 3),
    mode=st.sampled_from([OutputMode.All, OutputMode.Final, OutputMode.Sum]),
)  # fmt: skip
def test_replica_is_the_innermost_index_of_the_rows(d, a, r, mb, mode):
    executor = poptorch.trainingModel(_Keep(), make_options(d=d, a=a, r=r, mode=mode))
    rows = torch.arange(d * a * r * mb, dtype=torch.float32)
    got = executor(rows)[1]
    grid = rows.view(d, a, r, mb)
    want = {OutputMode.All: grid, OutputMode.Final: grid[-1, -1], OutputMode.Sum: grid.sum((0, 1))}[mode]
    torch.testing.assert_close(got, want.reshape(-1))


class _Keep(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return poptorch.identity_loss((self.w * x).sum(), "none"), x * 1


def test_inputs_are_cut_each_on_its_own_and_scalars_go_whole():
    class Both(nn.Module):
        def forward(self, x, mask, scale):
            return x.sum() * scale, mask.sum()

    executor = poptorch.inferenceModel(Both(), make_options(d=4))
    got = executor(torch.arange(8.0), torch.arange(4.0), torch.tensor(2.0))
    assert got[0].tolist() == [2.0, 10.0, 18.0, 26.0]
    assert got[1].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_input_groups_share_rows():
    options = make_options(r=4)
    options.inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive)
    assert poptorch.inferenceModel(TimesTen(), options)(torch.tensor([1.0, 2.0]))[1].tolist() == [1, 1, 2, 2]
    options = make_options(r=4)
    options.inputReplicaGrouping(2, poptorch.CommGroupType.Orthogonal)
    assert poptorch.inferenceModel(TimesTen(), options)(torch.tensor([1.0, 2.0]))[1].tolist() == [1, 2, 1, 2]


def test_rows_that_do_not_divide_are_refused_with_all_numbers():
    executor = poptorch.inferenceModel(TimesTen(), make_options(d=2, r=2))
    with pytest.raises(
        AssertionError, match=r"Invalid batch dimension: In the input x, .*\(6\).*deviceIterations\(2\).*replicationFactor\(2\)"
    ):
        executor(torch.arange(6.0))


def test_every_n_must_divide_device_iterations():
    executor = poptorch.inferenceModel(TimesTen(), make_options(d=4, mode=OutputMode.EveryN, period=3))
    with pytest.raises(poptorch.Error, match="period 3, which must divide"):
        executor(torch.arange(4.0))


def test_inference_refuses_accumulation():
    with pytest.raises(
        poptorch.Error, match=r"gradientAccumulation to 1 .*inferenceModel\(\)\. Use .*deviceIterations to process .* Given 2\."
    ):
        poptorch.inferenceModel(TimesTen(), make_options(a=2))


def test_batchnorm_statistics_are_per_micro_batch():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(1)

        def forward(self, x):
            return poptorch.identity_loss(self.norm(x).sum(), "none")

    model = Net()
    poptorch.trainingModel(model, make_options(a=2))(torch.tensor([[1.0], [3.0], [5.0], [7.0]]))
    assert model.norm.running_mean.item() == pytest.approx(0.78)
    assert model.norm.running_var.item() == pytest.approx(1.19)
    assert model.norm.num_batches_tracked.item() == 2


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(()))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count += 1
        return poptorch.identity_loss((self.w * x).sum(), "none"), self.count * 1


def test_buffers_step_once_per_micro_batch():
    model = Counting()
    outputs = poptorch.trainingModel(model, make_options(d=3, mode=OutputMode.All))(torch.ones(3))
    assert outputs[1].tolist() == [1.0, 2.0, 3.0]
    assert model.count.item() == 3


def test_changed_buffers_with_replicas_need_broadcast_off():
    with pytest.raises(
        poptorch.Error,
        match=r"disable buffer broadcasting using poptorch.Options.broadcastBuffers\(False\).*is 2, and the step changes count",
    ):
        poptorch.trainingModel(Counting(), make_options(r=2))(torch.ones(2))
    options = make_options(r=2, d=2)
    options.broadcastBuffers(False)
    model = Counting()
    poptorch.trainingModel(model, options)(torch.ones(4))
    assert model.count.item() == 2  # replica 0's own


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
def test_in_place_changes_of_inputs_reach_the_caller(dtype):
    class AddOne(nn.Module):
        def forward(self, x):
            x += 1
            return x.sum()

    x = torch.arange(6, dtype=dtype).view(3, 2).t()  # not contiguous
    poptorch.inferenceModel(AddOne(), make_options(d=2))(x)
    assert x.tolist() == torch.arange(6, dtype=dtype).view(3, 2).t().add(1).tolist()


def test_returned_structures_keep_their_types_and_host_constants():
    constant = torch.tensor([7.0])

    class Structured(nn.Module):
        def forward(self, x):
            return {"list": [x, x * 2], "tuple": (x.sum(), None, 3), "constant": constant}

    got = poptorch.inferenceModel(Structured(), make_options(d=2))(torch.arange(4.0))
    assert got["list"][1].tolist() == [0, 2, 4, 6] and got["tuple"][0].tolist() == [1, 5]
    assert got["tuple"][1:] == (None, 3) and got["constant"] is constant


def test_integer_and_double_results_come_back_narrow():
    class Types(nn.Module):
        def forward(self, x):
            return x.argmax(), x.double() * 2, x > 1

    got = poptorch.inferenceModel(Types())(torch.arange(3.0))
    assert [t.dtype for t in got] == [torch.int32, torch.float32, torch.bool]


def test_integers_beyond_int32_are_refused():
    with pytest.raises(poptorch.Error, match="int64 input holds values from 0 to 4294967296"):
        poptorch.inferenceModel(TimesTen())(torch.tensor([0, 2**32]))
