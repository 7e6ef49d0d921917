"""What an executor answers and refuses: devices, compiling twice, destroying, counters, buffers, hooks."""

import datetime
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from softipu import poptorch


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 1)
        self.register_buffer("scale", torch.ones(1))
        self.register_buffer("offset", torch.zeros(1))

    def forward(self, x):
        y = self.linear(x) * self.scale + self.offset
        return y, F.mse_loss(y, x[:, :1])


X = torch.ones(4, 2)


def training(options=None):
    torch.manual_seed(0)
    model = Net()
    return poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))


# Devices


@pytest.mark.parametrize("connection", [poptorch.ConnectionType.Always, poptorch.ConnectionType.OnDemand])
def test_attached_from_compilation_until_detached(connection):
    executor = training(poptorch.Options().connectionType(connection))
    assert not executor.isAttachedToDevice() and not executor.isCompiled()
    executor.compile(X)
    assert executor.isAttachedToDevice()
    executor.detachFromDevice()
    assert not executor.isAttachedToDevice() and executor.isCompiled()
    with pytest.raises(poptorch.Error, match="Device is not attached"):
        executor.detachFromDevice()
    executor.attachToDevice()
    with pytest.raises(poptorch.Error, match="Device is already attached"):
        executor.attachToDevice()


def test_never_attached_with_an_offline_target():
    executor = training(poptorch.Options().connectionType(poptorch.ConnectionType.Never))
    executor.compile(X)
    assert executor.isCompiled() and not executor.isAttachedToDevice()
    with pytest.raises(AssertionError, match="Trying to run a model on an offline device"):
        executor(X)


@pytest.mark.parametrize(
    "use",
    [
        lambda e: e.attachToDevice(),
        lambda e: e.detachFromDevice(),
        lambda e: e.copyWeightsToHost(),
        lambda e: e.copyWeightsToDevice(),
        lambda e: e.rng_state,
        lambda e: e.compilationTime(),
        lambda e: e.copyNamedBuffersToDevice(),
    ],
)
def test_what_needs_a_program_says_so(use):
    with pytest.raises(poptorch.Error, match="Model has not been compiled or has been destroyed"):
        use(training())


def test_training_goes_on_after_detaching_as_if_nothing_had_been():
    options = poptorch.Options().randomSeed(3)
    with_break, without = training(options), training(options)
    for i in range(4):
        assert torch.equal(with_break(X)[1], without(X)[1])
        if i % 2:
            with_break.detachFromDevice()
    assert torch.equal(with_break.model.linear.weight, without.model.linear.weight)


def test_host_edits_while_detached_are_uploaded():
    executor = training()
    executor(X)
    executor.detachFromDevice()
    with torch.no_grad():
        executor.model.linear.weight.fill_(7.0)
        executor.model.linear.bias.zero_()
    y, _ = executor(X)
    assert y.tolist() == [[14.0]] * 4


# Compiling and destroying


def test_compiling_twice_is_ignored_with_a_warning(caplog):
    executor = training()
    executor.compile(X)
    program = executor.step
    executor.compile(X)
    assert executor.step is program and "compile() ignored" in caplog.text


def test_destroyed_executor_can_be_used_again():
    executor = training()
    executor(X)
    executor.destroy()
    assert not executor.isCompiled() and not executor.isAttachedToDevice()
    assert type(executor.model.linear.weight) is nn.Parameter
    before = executor.model.linear.weight.detach().clone()
    executor(torch.ones(2, 2))  # another shape: compiled anew
    assert not torch.equal(executor.model.linear.weight, before)  # a read copies again
    with pytest.raises(RuntimeError, match="already been wrapped"):
        poptorch.trainingModel(executor.model)


def test_destroying_twice():
    executor = training()
    executor.destroy()
    with pytest.raises(poptorch.Error, match="model was never wrapped"):
        executor.destroy()


def test_module_can_be_wrapped_again_after_destroy():
    executor = training()
    with pytest.raises(RuntimeError, match="already been wrapped"):
        poptorch.trainingModel(executor.model)
    executor.destroy()
    poptorch.trainingModel(executor.model)(X)


def test_compilation_time():
    executor = training()
    executor.compile(X)
    assert executor.compilationTime() > datetime.timedelta(0)
    quiet = training(poptorch.Options().showCompilationProgressBar(False))
    quiet.compile(X)
    with pytest.raises(poptorch.Error, match="showCompilationProgressBar"):
        quiet.compilationTime()


def test_compile_hooks_run_in_order_around_every_compilation():
    seen = []
    handles = [
        poptorch.registerPreCompileHook(lambda: seen.append("first before")),
        poptorch.registerPreCompileHook(lambda: seen.append("second before")),
        poptorch.registerPostCompileHook(lambda: seen.append("after")),
    ]
    executor = training()
    executor(X), executor(X)
    assert seen == ["first before", "second before", "after"]
    handles[0].remove()
    training().compile(X)
    assert seen[3:] == ["second before", "after"]
    for handle in handles:
        handle.remove()
    training().compile(X)
    assert len(seen) == 5


def test_compile_hooks_must_be_callable():
    for register in (poptorch.registerPreCompileHook, poptorch.registerPostCompileHook):
        with pytest.raises(RuntimeError, match="must be callable, given 3"):
            register(3)


# Counters


@pytest.mark.parametrize(
    ("mode", "n_returned"),
    [
        ((poptorch.OutputMode.All,), 2 * 3 * 2),
        ((poptorch.OutputMode.Final,), 2),
        ((poptorch.OutputMode.Sum,), 2),
        ((poptorch.OutputMode.EveryN, 2), 3 * 2),
    ],
)
def test_counters_have_one_stamp_for_every_micro_batch_that_crossed(mode, n_returned):
    options = poptorch.Options().deviceIterations(2).replicationFactor(2).outputMode(*mode)
    options.Training.gradientAccumulation(3)
    executor = training(options)
    assert executor.getPerfCounters() == {name: [[]] for name in ("input", "input_complete", "output", "output_complete")}
    executor(torch.ones(12, 2))
    counters = executor.getPerfCounters()
    assert [len(stamps) for stamps in counters["input"]] == [12] == [len(stamps) for stamps in counters["input_complete"]]
    assert [len(stamps) for stamps in counters["output"]] == [n_returned] * 2
    assert counters["input"][0][0] <= counters["input_complete"][0][0] <= counters["output"][0][0] <= counters["output_complete"][0][0]


def test_synthetic_data_crosses_nothing():
    options = poptorch.Options().deviceIterations(4).enableSyntheticData(True)
    executor = training(options)
    executor(torch.ones(4, 2))
    assert executor.getPerfCounters() == {"input": [[]], "input_complete": [[]], "output": [[], []], "output_complete": [[], []]}
    assert executor.getLatency() == (0.0, 0.0, 0.0)


def test_latencies_add_up():
    executor = training()
    assert executor.getLatency() == (0.0, 0.0, 0.0)
    executor(X)
    parts = [executor.getHostIpuLatency(), executor.getComputeLatency(), executor.getIpuHostLatency()]
    assert executor.getLatency()[2] == pytest.approx(sum(p[2] for p in parts))
    assert all(low <= average <= high for low, high, average in parts)


def test_cycle_counts_need_hardware():
    executor = training()
    executor(X)
    with pytest.raises(poptorch.Error, match="Please set option logCycleCount to True to enable"):
        executor.cycleCount()
    counting = training(poptorch.Options().logCycleCount(True))
    with pytest.raises(poptorch.Error, match="run the model at least once"):
        counting.cycleCount()
    with pytest.raises(poptorch.Error, match="Cycle count logging is only supported on actual IPU hardware."):
        counting(X)


# Buffers


def test_named_buffers_are_uploaded_alone():
    options = poptorch.Options().updatableNamedBuffers(["scale"])
    executor = poptorch.inferenceModel(Net(), options)
    y, _ = executor(X)
    with torch.no_grad():
        for tensor in (executor.model.scale, executor.model.offset, executor.model.linear.weight):
            tensor.add_(1.0)
    executor.copyNamedBuffersToDevice()
    torch.testing.assert_close(executor(X)[0], y * 2)


def test_named_buffers_must_exist_and_must_have_been_named():
    with pytest.raises(poptorch.Error, match="updatableNamedBuffers names nothing, but the buffers of Net are scale, offset"):
        poptorch.inferenceModel(Net(), poptorch.Options().updatableNamedBuffers(["scale", "nothing"]))(X)
    executor = poptorch.inferenceModel(Net())
    executor(X)
    with pytest.raises(poptorch.Error, match="copyNamedBuffersToDevice needs Options.updatableNamedBuffers"):
        executor.copyNamedBuffersToDevice()


class Rebinding(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.register_buffer("y", torch.tensor([2.0]))
        self.weight = nn.Parameter(torch.ones(1))
        self.change = change

    def forward(self, x):
        self.change(self, x)
        return x + 1


def rebind_parameter(module, x):
    module._parameters["weight"] = x


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, x: m._buffers.pop("y"), r"Buffer y is removed from the model when calling the forward method\."),
        (lambda m, x: m._parameters.pop("weight"), r"Parameter weight is removed from the model when calling the forward method\."),
        (
            lambda m, x: setattr(m, "y", x),
            r"Buffer y is reassigned within the model when calling the forward method\. This is not supported\. Consider using "
            r"self\.y\.copy_\(src\) to copy data from a source tensor, where src is the name of the source tensor\.",
        ),
        (rebind_parameter, r"Parameter weight is reassigned within the model when calling the forward method\."),
    ],
)
def test_weights_that_forward_removes_or_binds_anew(change, message):
    model = Rebinding(change)
    with pytest.raises(poptorch.Error, match=message):
        poptorch.inferenceModel(model)(torch.ones(1))
    assert list(model.state_dict()) == ["weight", "y"] and type(model.y) is torch.Tensor


# Outputs


def test_backward_on_outputs_says_that_it_is_done_already():
    y, loss = training()(X)
    for tensor in (y, loss):
        with pytest.raises(poptorch.Error, match=r"backward\(\) cannot be called explicitly on outputs of a PopTorch model"):
            tensor.backward()


def test_backward_elsewhere_is_as_it_was():
    training()(X)
    weight = torch.ones(2, requires_grad=True)
    (weight * 3).sum().backward()
    assert weight.grad.tolist() == [3, 3]
    y, _ = training()(X)
    y.requires_grad_()
    y.sum().backward()  # the user's own graph on top of an output
    assert torch.equal(y.grad, torch.ones_like(y))


def test_outputs_are_plain_tensors():
    y, loss = training()(X)
    assert type(loss) is torch.Tensor and not vars(loss)
    assert torch.equal(pickle.loads(pickle.dumps(y)), y)


def test_calls_and_attributes_of_the_module_pass_through():
    executor = training()
    assert executor.linear is executor.model.linear and executor.scale is executor.model.scale
    assert list(executor.state_dict()) == list(executor.model.state_dict())
    assert executor.training is True
    with pytest.raises(AttributeError, match="nothing"):
        executor.nothing  # noqa: B018
