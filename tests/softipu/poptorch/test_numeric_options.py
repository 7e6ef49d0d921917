"""Options that change numbers: floating-point exceptions, stochastic rounding, accumulators, loss scaling, synthetic data, caching."""

import os

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from softipu import poptorch
from softipu.graph.stochastic_rounding import round_stochastically


class Forward(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def with_precision(**settings):
    options = poptorch.Options()
    for name, value in settings.items():
        getattr(options.Precision, name)(value)
    return options


# Floating-point exceptions

INF, NAN = float("inf"), float("nan")
EXCEPTIONS = {
    "division by zero": (lambda x, y: x / y, [1.0, 1.0], [0.0, 1.0], "division by zero by aten.div"),
    "logarithm of zero": (lambda x, y: torch.log(x) + y, [0.0], [1.0], "division by zero by aten.log"),
    "zero times infinity": (lambda x, y: x * y, [0.0], [INF], "invalid operation .* by aten.mul"),
    "root of a negative": (lambda x, y: torch.sqrt(x) + y, [-1.0], [1.0], "invalid operation .* by aten.sqrt"),
    "comparison of NaN": (lambda x, y: x > y, [1.0], [NAN], "invalid operation .* by aten.gt"),
    "overflow": (lambda x, y: torch.exp(x) + y, [3800.0], [1.0], "overflow by aten.exp"),
}


@pytest.mark.parametrize("case", EXCEPTIONS)
@pytest.mark.parametrize("enabled", [None, False, True])
def test_exceptions_are_raised_when_enabled(case, enabled):
    function, x, y, message = EXCEPTIONS[case]
    options = poptorch.Options()
    if enabled is not None:
        options.Precision.enableFloatingPointExceptions(enabled)
    executor = poptorch.inferenceModel(Forward(function), options)
    if enabled:
        with pytest.raises(poptorch.Error, match=f"Floating point exception: {message}"):
            executor(torch.tensor(x), torch.tensor(y))
        assert executor(torch.tensor([2.0] * len(x)), torch.tensor([1.0] * len(y))) is not None  # usable afterwards
    else:
        executor(torch.tensor(x), torch.tensor(y))


def test_infinities_that_pass_through_are_no_exception():
    def masked(x):
        mask = torch.full((3, 3), -INF).triu(1)
        return torch.softmax(x + mask, -1).clamp(max=INF)

    result = poptorch.inferenceModel(Forward(masked), with_precision(enableFloatingPointExceptions=True))(torch.zeros(3, 3))
    torch.testing.assert_close(result.sum(-1), torch.ones(3))


def test_exceptions_name_the_module_and_the_backward_pass():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Forward(torch.sqrt)
            self.weight = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return F.l1_loss(self.inner(self.weight * x), x)

    executor = poptorch.trainingModel(Net(), with_precision(enableFloatingPointExceptions=True))
    with pytest.raises(poptorch.Error, match="in module 'inner' in the backward pass"):
        executor(torch.ones(1))


def test_half_overflows_where_float_does_not():
    executor = poptorch.inferenceModel(Forward(lambda x: x * x), with_precision(enableFloatingPointExceptions=True))
    executor(torch.tensor([300.0]))
    half = poptorch.inferenceModel(Forward(lambda x: x.half() * x.half()), with_precision(enableFloatingPointExceptions=True))
    assert half(torch.tensor([200.0])).item() == 40000


# Stochastic rounding


def test_rounding_is_to_a_neighbour_and_right_on_average():
    x = torch.cat([torch.full((20000,), v) for v in (1.0 + 2**-12, -1.0 - 3 * 2**-13, 3e-7, 1000.3, 1e-8, -6e-5)])
    rounded = round_stochastically(x, torch.Generator().manual_seed(0)).float()
    for value, got in zip(x.view(6, -1)[:, 0], rounded.view(6, -1)):
        assert len(got.unique()) == 2
        low, high = got.unique().sort()[0]
        assert low < value < high
        assert abs(got.double().mean() - value) < 5 * (high - low) / 20000**0.5


def test_exact_and_special_values_stay_as_they_are():
    x = torch.tensor([0.0, -0.0, 1.5, 65504.0, INF, -INF, 2.0**-24])
    assert torch.equal(round_stochastically(x, torch.Generator()).float(), x)
    assert torch.isnan(round_stochastically(torch.tensor([NAN]), torch.Generator())).all()
    assert torch.isinf(round_stochastically(torch.tensor([1e6]), torch.Generator())).all()


def test_half_results_are_rounded_by_the_devices_stream():
    def run(seed, enabled=True):
        options = with_precision(enableStochasticRounding=enabled).randomSeed(seed)
        executor = poptorch.inferenceModel(Forward(lambda x: x * 1.0003), options)
        return [executor(torch.ones(1000, dtype=torch.float16)) for _ in range(2)]

    first, again, other, nearest = run(1), run(1), run(2), run(1, enabled=False)
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    assert not torch.equal(first[0], first[1]) and not torch.equal(first[0], other[0])
    assert len(nearest[0].float().unique()) == 1 and len(first[0].float().unique()) == 2
    assert abs(first[0].float().mean().item() - 1.0003) < 1e-4
    assert first[0].dtype == torch.float16


def test_small_half_updates_are_not_lost_on_average():
    def train(enabled):
        torch.manual_seed(0)
        model = nn.Linear(1, 4000, bias=False).half()
        nn.init.ones_(model.weight)

        class Loss(nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, x):
                return poptorch.identity_loss(self.model(x), "sum")

        options = with_precision(enableStochasticRounding=enabled)
        executor = poptorch.trainingModel(Loss(), options, torch.optim.SGD(model.parameters(), lr=1e-4))
        for _ in range(20):
            executor(torch.ones(1, 1).half())
        return model.weight.detach().float().mean().item()

    assert train(False) == 1.0  # 1e-4 is less than half a step of half precision at 1
    assert train(True) == pytest.approx(1.0 - 20e-4, abs=2e-4)


# Accumulators


class Scalar(nn.Module):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, dtype=dtype))

    def forward(self, x):
        return poptorch.identity_loss((self.weight * x).sum(), "none")


def accumulate(optimizer, x, dtype=torch.float32, reduction=poptorch.ReductionType.Mean, replicas=1):
    options = poptorch.Options().replicationFactor(replicas)
    options.Training.gradientAccumulation(len(x) // replicas).accumulationAndReplicationReductionType(reduction)
    model = Scalar(dtype)
    executor = poptorch.trainingModel(model, options, optimizer(model.parameters()))
    executor(torch.tensor(x, dtype=dtype))
    return model.weight.item(), executor


def test_half_accumulators_keep_a_running_mean():
    x = [40000.0, 50000.0, 60000.0, 60000.0]  # their sum is no half
    weight, executor = accumulate(lambda p: poptorch.optim.SGD(p, lr=1.0, accum_type=torch.float16), x)
    assert weight == pytest.approx(-52500.0, rel=1e-3)
    strategy = executor.options.Training.meanAccumulationAndReplicationReductionStrategy
    assert strategy == poptorch.MeanReductionStrategy.Running


def test_half_accumulators_round_to_half():
    exact, _ = accumulate(lambda p: poptorch.optim.SGD(p, lr=1.0), [1.0, 2.0**-13])
    rounded, _ = accumulate(lambda p: poptorch.optim.SGD(p, lr=1.0, accum_type=torch.float16), [1.0, 2.0**-13])
    assert exact == -(1 + 2.0**-13) / 2 and rounded == -0.5


@pytest.mark.parametrize("reduction", [poptorch.ReductionType.Mean, poptorch.ReductionType.Sum])
def test_half_accumulators_over_replicas(reduction):
    x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    half, _ = accumulate(lambda p: poptorch.optim.SGD(p, lr=0.5, accum_type=torch.float16), x, reduction=reduction, replicas=2)
    full, _ = accumulate(lambda p: poptorch.optim.SGD(p, lr=0.5), x, reduction=reduction, replicas=2)
    assert half == pytest.approx(full, rel=1e-3)


def test_half_gradients_are_added_up_in_float():
    weight, _ = accumulate(lambda p: torch.optim.SGD(p, lr=2.0**-10), [2048.0] + [1.0] * 7, torch.float16, poptorch.ReductionType.Sum)
    assert weight == torch.tensor(-2055.0 / 1024).half().item() == -2.0078125  # in half 2048 + 1 is 2048, which would give -2


def test_half_accumulators_after_compiling_with_another_strategy():
    _, executor = accumulate(lambda p: poptorch.optim.SGD(p, lr=1.0), [1.0, 2.0])
    with pytest.raises(ValueError, match="accum_type=torch.float16, which needs the mean reduction strategy .*Running"):
        executor.setOptimizer(poptorch.optim.SGD(executor.model.parameters(), lr=1.0, accum_type=torch.float16))
    combined = poptorch.optim.SGD(executor.model.parameters(), lr=1.0, accum_type=torch.float16, use_combined_accum=True)
    executor.setOptimizer(combined)


# Automatic loss scaling


def scaled_training(gradient, scale, calls, dtype=torch.float16):
    model = Scalar(dtype)
    options = poptorch.Options()
    options.Training.setAutomaticLossScaling(True)
    options.anchorTensor("g", "Gradient___weight")
    executor = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.125, loss_scaling=scale))
    seen = []
    for _ in range(calls):
        executor(torch.tensor([gradient], dtype=dtype))
        seen.append(executor.getAnchoredTensor("g").item() / gradient)
    return seen, model.weight.item()


def test_loss_scale_doubles_while_gradients_are_small_and_halves_when_they_are_large():
    seen, weight = scaled_training(1.0, 1024.0, 6)
    assert seen == [1024, 2048, 4096, 8192, 4096, 8192]  # 8192 is above an eighth of the largest half, 65504
    assert weight == -6 * 0.125  # updates are those of the unscaled loss


def test_loss_scale_falls_after_an_overflow():
    seen, _ = scaled_training(100.0, 1024.0, 3)
    assert seen[0] == INF and seen[2] < INF


def test_loss_scale_of_a_float_model_stays():
    assert scaled_training(1.0, 4.0, 3, torch.float32)[0] == [4, 4, 4]


# Synthetic data


def test_synthetic_inputs_take_the_place_of_those_given():
    options = poptorch.Options().enableSyntheticData(True).randomSeed(3)

    def run():
        executor = poptorch.inferenceModel(Forward(lambda x, i: (x * 1, i * 1)), options)
        return [executor(torch.zeros(1000), torch.ones(3, dtype=torch.int64)) for _ in range(2)], executor

    (first, second), executor = run()
    assert abs(first[0].mean()) < 0.2 and abs(first[0].std() - 1) < 0.1 and first[1].tolist() == [0, 0, 0]
    assert not torch.equal(first[0], second[0])
    assert torch.equal(run()[0][0][0], first[0])
    assert executor.getLatency() == executor.getComputeLatency() == (0.0, 0.0, 0.0)


def test_synthetic_data_leaves_the_callers_tensors_alone():
    x = torch.zeros(3)
    poptorch.inferenceModel(Forward(lambda x: x.add_(1)), poptorch.Options().enableSyntheticData(True))(x)
    assert x.tolist() == [0, 0, 0]


# Executable caching


def test_cache_folder_is_made_and_must_be_writable(tmp_path):
    options = poptorch.Options().enableExecutableCaching(str(tmp_path / "a" / "b"))
    poptorch.inferenceModel(Forward(torch.sin), options)(torch.ones(1))
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(AssertionError, match="enableExecutableCaching, .*file.*, cannot be made"):
        poptorch.inferenceModel(Forward(torch.sin), poptorch.Options().enableExecutableCaching(str(tmp_path / "file")))(torch.ones(1))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_cache_folder_that_is_read_only(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(AssertionError, match="is not writable"):
        poptorch.inferenceModel(Forward(torch.sin), poptorch.Options().enableExecutableCaching(str(tmp_path)))(torch.ones(1))


def test_caching_switched_off_again_asks_for_no_folder(tmp_path):
    options = poptorch.Options().enableExecutableCaching(str(tmp_path / "c")).enableExecutableCaching(None)
    poptorch.inferenceModel(Forward(torch.sin), options)(torch.ones(1))
    assert not (tmp_path / "c").exists()
