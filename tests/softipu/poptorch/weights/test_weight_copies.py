"""When weights move between host and device."""

import copy
import io
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

    def forward(self, x):
        return F.mse_loss(self.linear(x), x[:, :1])


@pytest.fixture
def trained():
    torch.manual_seed(0)
    model = Net()
    executor = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=0.1))
    counts = {"to_host": 0}
    original = executor.copyWeightsToHost

    def counted():
        counts["to_host"] += 1
        original()

    executor.copyWeightsToHost = counted
    for _ in range(20):
        executor(torch.ones(4, 2))
    return model, executor, counts


def read_by_attribute(model):
    return model.linear.weight + 0


READS = {
    "attribute": read_by_attribute,
    "state_dict": lambda m: m.state_dict(),
    "print": lambda m: str(m.linear.weight),
    "equal": lambda m: torch.equal(m.linear.weight, m.linear.weight),
    "forward": lambda m: m(torch.ones(1, 2)),
    "save": lambda m: torch.save(m.state_dict(), io.BytesIO()),
    "deepcopy": copy.deepcopy,
    "data": lambda m: m.linear.weight.data,
}


@pytest.mark.parametrize("read", READS, ids=str)
def test_training_copies_nothing_and_a_read_copies_once(trained, read):
    model, _, counts = trained
    assert counts["to_host"] == 0
    READS[read](model)
    READS[read](model)
    assert counts["to_host"] == 1


def test_questions_that_need_no_value_copy_nothing(trained):
    model, _, counts = trained
    for p in model.parameters():
        assert p.shape and p.dtype and p.requires_grad and p.grad is None and p.numel()
    assert counts["to_host"] == 0


def test_host_edit_reaches_the_device_by_copy_only(trained):
    model, executor, _ = trained
    with torch.no_grad():
        model.linear.weight.fill_(3.0)
    executor(torch.zeros(4, 2))  # gradient of the weight is zero
    assert not torch.equal(model.linear.weight, torch.full((1, 2), 3.0))
    with torch.no_grad():
        model.linear.weight.fill_(3.0)
    executor.copyWeightsToDevice()
    executor(torch.zeros(4, 2))
    assert torch.equal(model.linear.weight, torch.full((1, 2), 3.0))


def test_copy_to_device_puts_the_hosts_last_known_weights_back(trained):
    model, executor, _ = trained
    before = model.linear.weight.detach().clone()
    executor(torch.ones(4, 2))
    executor.copyWeightsToDevice()
    assert torch.equal(model.linear.weight, before)


def test_inference_takes_newer_weights_from_training(trained):
    model, executor, counts = trained
    inference = poptorch.inferenceModel(executor)
    x = torch.ones(4, 2)
    assert torch.equal(inference(x), model(x))
    executor(x)
    assert torch.equal(inference(x), model(x))
    assert counts["to_host"] == 2


def test_inference_takes_newer_weights_that_somebody_else_pulled_first(trained):
    model, executor, _ = trained
    x = torch.ones(4, 2)
    inference = poptorch.inferenceModel(model)
    inference(x)
    executor(x)
    model.state_dict()
    assert torch.equal(inference(x), model(x))


def test_another_module_with_the_same_parameters_takes_newer_weights(trained):
    model, executor, _ = trained
    inference = poptorch.inferenceModel(nn.Sequential(model.linear))
    x = torch.ones(4, 2)
    inference(x)
    executor(x)
    assert torch.equal(inference(x), model.linear(x))


def test_wrapped_modules_copy_and_pickle_as_plain_ones(trained):
    model, _, _ = trained
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert type(twin.linear.weight) is nn.Parameter and twin.linear.weight.requires_grad
        assert torch.equal(twin.linear.weight, model.linear.weight)
    assert isinstance(model.linear.weight, nn.Parameter)


def test_parameters_keep_their_identity_through_wrap_train_and_destroy():
    model = Net()
    before = [id(p) for p in model.parameters()]
    executor = poptorch.trainingModel(model)
    executor(torch.ones(4, 2))
    start = model.linear.weight.detach().clone()
    executor(torch.ones(4, 2))
    executor.destroy()
    assert [id(p) for p in model.parameters()] == before and type(model.linear.weight) is nn.Parameter
    assert not torch.equal(model.linear.weight, start)


def test_wrapping_twice_is_refused_until_destroyed():
    model = Net()
    executor = poptorch.trainingModel(model)
    with pytest.raises(RuntimeError, match="already been wrapped"):
        poptorch.trainingModel(model)
    executor.destroy()
    poptorch.trainingModel(model)(torch.ones(4, 2))


def test_detach_and_attach_keep_weights_and_optimizer_state():
    torch.manual_seed(0)
    models = [Net()]
    models.append(copy.deepcopy(models[0]))
    executors = [poptorch.trainingModel(m, None, torch.optim.Adam(m.parameters(), lr=0.1)) for m in models]
    for i in range(6):
        for executor in executors:
            executor(torch.full((4, 2), float(i)))
        executors[0].detachFromDevice()
        assert not executors[0].isAttachedToDevice()
    assert torch.equal(models[0].linear.weight, models[1].linear.weight)


@pytest.mark.parametrize("call", ["copyWeightsToHost", "copyWeightsToDevice", "attachToDevice", "detachFromDevice"])
def test_device_calls_before_compiling_are_refused(call):
    with pytest.raises(poptorch.Error, match="Model has not been compiled or has been destroyed."):
        getattr(poptorch.trainingModel(Net()), call)()


def test_modules_that_share_parameters_train_one_after_the_other():
    class Twice(nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.linear = linear

        def forward(self, x):
            return F.mse_loss(self.linear(x) * 2, x[:, :1])

    torch.manual_seed(0)
    device, host = Net(), Net()
    host.load_state_dict(device.state_dict())
    modules = [device, Twice(device.linear)], [host, Twice(host.linear)]
    executors = [poptorch.trainingModel(m, None, torch.optim.SGD(device.parameters(), lr=0.1)) for m in modules[0]]
    optimizer = torch.optim.SGD(host.parameters(), lr=0.1)
    x = torch.ones(4, 2)
    for i in range(6):
        other, this = executors[(i + 1) % 2], executors[i % 2]
        if other.isCompiled() and this.isCompiled():
            other.copyWeightsToHost()
            this.copyWeightsToDevice()
        this(x)
        optimizer.zero_grad()
        modules[1][i % 2](x).backward()
        optimizer.step()
    torch.testing.assert_close(device.linear.weight.detach(), host.linear.weight.detach())
    executors[0].destroy()
    executors[1](x)
    modules[1][1](x).backward()
    assert not torch.equal(device.linear.weight, host.linear.weight)
    executors[1].destroy()
    assert type(device.linear.weight) is nn.Parameter


def test_a_module_changed_after_compiling_is_told_apart(trained):
    model, executor, _ = trained
    model.state_dict()
    model.extra = nn.Parameter(torch.zeros(1))
    with pytest.raises(poptorch.Error, match=r"new \['extra'\], gone \[\].*destroy\(\)"):
        executor.copyWeightsToDevice()
    del model.extra
    model.linear.weight.data = torch.zeros(1, 2, 1)
    with pytest.raises(poptorch.Error, match=r"'linear.weight' has shape \[1, 2, 1\]"):
        executor.copyWeightsToDevice()


def test_whoever_reads_a_gradient_is_told_once_by_line(trained, caplog):
    model, _, _ = trained
    with caplog.at_level("WARNING", logger="poptorch::python"):
        for _ in range(3):
            assert model.linear.weight.grad is None
    told = [r.getMessage() for r in caplog.records if "gradient of a parameter" in r.getMessage()]
    assert len(told) == 1 and __file__ in told[0]


def test_anomaly_detection_on_the_host_does_not_disturb_capture():
    model = Net()
    with torch.autograd.set_detect_anomaly(True):
        poptorch.trainingModel(model)(torch.ones(4, 2))
        assert torch.is_anomaly_enabled()


def test_an_inference_model_that_comes_back_uploads_its_weights_once(trained):
    model, executor, _ = trained
    inference = poptorch.inferenceModel(Predict(model))
    inference(torch.ones(4, 2))
    uploads = []
    original = inference.copyWeightsToDevice
    inference.copyWeightsToDevice = lambda: (uploads.append(1), original())
    inference.detachFromDevice()
    executor(torch.ones(4, 2))
    executor.detachFromDevice()
    result = inference(torch.ones(4, 2))
    assert uploads == [1]
    assert torch.allclose(result, model.linear(torch.ones(4, 2)))
    inference(torch.ones(4, 2))
    assert uploads == [1]


class Predict(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net.linear(x)


def test_the_wrapped_module_can_be_destroyed_itself(trained):
    model, executor, _ = trained
    with pytest.raises(
        RuntimeError, match=r"already been wrapped in 'poptorch.trainingModel'. Call model.destroy\(\) on the model to unwrap"
    ):
        poptorch.trainingModel(model)
    copied, loaded = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    assert [getattr(m, "destroy", None) for m in (copied, loaded)] == [None, None]
    model.destroy()
    assert not executor.isCompiled() and not hasattr(model, "destroy")
    again = poptorch.trainingModel(executor)
    again(torch.ones(4, 2))
    again.destroy()
    poptorch.trainingModel(copied)(torch.ones(4, 2))
    copied.destroy()


def test_a_destroy_of_the_modules_own_is_left_alone():
    class Own(Net):
        def destroy(self):
            return "own"

    model = Own()
    executor = poptorch.trainingModel(model)
    assert model.destroy() == "own"
    executor.destroy()
    assert model.destroy() == "own"
