"""Options.anchorTensor, getTensorNames, getAnchoredTensor: names in PopART's manner, values of the last call."""

import logging
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from softipu import poptorch


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.fc2 = nn.Linear(10, 10)
        self.loss = nn.MSELoss(reduction="mean")

    def forward(self, x, labels=None):
        out = self.fc2(self.relu(self.fc1(x)))
        return self.loss(out, labels) if self.training else out


def data(rows=10):
    torch.manual_seed(1)
    return torch.rand(rows, 10), torch.rand(rows, 10)


def train(options=None, optimizer=None):
    torch.manual_seed(0)
    model = Net()
    return poptorch.trainingModel(model, options, optimizer(model.parameters()) if optimizer else None)


def test_names_are_there_after_compiling_only():
    executor = train()
    with pytest.raises(AssertionError, match="Model must be compiled before calling getTensorNames"):
        executor.getTensorNames()
    executor(*data())
    names = executor.getTensorNames()
    inner = {"fc1.weight", "input", "input/1", "fc1/MatMul:0", "relu/Relu:0"}
    assert inner | {"Gradient___fc2.bias", "UpdatedVar___fc2.weight", "Accum___fc1.bias"} <= set(names)
    assert any(n.startswith("loss") for n in names)
    assert any(n.startswith("scaledLearningRate") for n in names) and any(n.startswith("weightDecayScaleFactor") for n in names)
    assert any(re.search(r"\bfc1\b", n) for n in names)
    assert len(names) == len(set(names))
    executor.destroy()
    with pytest.raises(AssertionError, match="must be compiled"):
        executor.getTensorNames()


def test_names_of_a_loaded_model(tmp_path):
    executor = train()
    executor(*data())
    executor.save(str(tmp_path / "m"))
    assert poptorch.load(str(tmp_path / "m")).getTensorNames() == executor.getTensorNames()


def test_inference_has_no_gradients():
    executor = poptorch.inferenceModel(Net().eval())
    executor(data()[0])
    assert not any(n.startswith(("Gradient", "UpdatedVar", "Accum")) for n in executor.getTensorNames())


def test_values_are_those_of_the_last_call():
    options = poptorch.Options()
    options.anchorTensor("gradient", "Gradient___fc2.bias")
    options.anchorTensor("updated", "UpdatedVar___fc2.weight")
    executor = train(options)
    with pytest.raises(AssertionError, match="No tensor with name gradient found"):
        executor.getAnchoredTensor("gradient")
    x, y = data()
    expected = Net()
    for _ in range(2):
        expected.load_state_dict(executor.model.state_dict())
        executor(x, y)
        expected(x, y).backward()
        torch.testing.assert_close(executor.getAnchoredTensor("gradient"), expected.fc2.bias.grad)
        assert torch.equal(executor.getAnchoredTensor("updated"), executor.model.fc2.weight.detach())
        expected.zero_grad()


def test_activations_parameters_and_inputs():
    options = poptorch.Options()
    for name, tensor in (("x", "input"), ("w", "fc1.weight"), ("hidden", "relu/Relu:0")):
        options.anchorTensor(name, tensor)
    model = Net().eval()
    executor = poptorch.inferenceModel(model, options)
    x, _ = data()
    executor(x)
    assert torch.equal(executor.getAnchoredTensor("x"), x)
    assert torch.equal(executor.getAnchoredTensor("w"), model.fc1.weight.detach())
    torch.testing.assert_close(executor.getAnchoredTensor("hidden"), F.relu(model.fc1(x)).detach())


def test_anchoring_changes_no_number():
    options = poptorch.Options().deviceIterations(2).replicationFactor(2)
    anchored = options.clone()
    for name in ("Gradient___fc1.weight", "Accum___fc1.weight", "UpdatedVar___fc1.weight", "fc1/MatMul:0", "input"):
        anchored.anchorTensor(name, name)
    x, y = data(16)
    plain, seen = train(options), train(anchored)
    for _ in range(3):
        torch.testing.assert_close(plain(x, y), seen(x, y))
    torch.testing.assert_close(plain.model.fc1.weight.detach(), seen.model.fc1.weight.detach())


MODES = [
    ((poptorch.OutputMode.All,), 2 * 3 * 2, 2 * 2),
    ((poptorch.OutputMode.Final,), 2, 2),
    ((poptorch.OutputMode.Sum,), 2, 2),
    ((poptorch.OutputMode.EveryN, 2), 3 * 2, 2),
]


@pytest.mark.parametrize(("mode", "of_micro_batches", "of_updates"), MODES)
def test_each_anchor_has_an_output_mode_of_its_own(mode, of_micro_batches, of_updates):
    options = poptorch.Options().deviceIterations(2).replicationFactor(2)
    options.Training.gradientAccumulation(3)
    options.anchorTensor("gradient", "Gradient___fc2.bias", *mode)
    options.anchorTensor("updated", "UpdatedVar___fc2.bias", *mode)
    executor = train(options)
    loss = executor(*data(24))
    assert loss.shape == (2,)  # the model's own mode is Final
    assert executor.getAnchoredTensor("gradient").shape == (10 * of_micro_batches,)
    assert executor.getAnchoredTensor("updated").shape == (10 * of_updates,)


def test_anchors_follow_the_models_mode_unless_told():
    options = poptorch.Options().deviceIterations(4).outputMode(poptorch.OutputMode.EveryN, 2)
    options.anchorTensor("hidden", "relu/Relu:0")
    executor = train(options)
    executor(*data(8))
    assert executor.getAnchoredTensor("hidden").shape == (4, 10)


def test_accumulated_gradient_is_the_sum_that_enters_the_update():
    options = poptorch.Options()
    options.Training.gradientAccumulation(3)
    options.anchorTensor("each", "Gradient___fc2.bias", poptorch.OutputMode.All)
    options.anchorTensor("sum", "Accum___fc2.bias")
    executor = train(options)
    executor(*data(6))
    torch.testing.assert_close(executor.getAnchoredTensor("sum"), executor.getAnchoredTensor("each").view(3, 10).sum(0))


def test_gradients_are_scaled_as_the_loss_is():
    def gradient(scale):
        options = poptorch.Options()
        options.anchorTensor("g", "Gradient___fc2.bias")
        executor = train(options, lambda p: poptorch.optim.SGD(p, lr=0.1, loss_scaling=scale))
        executor(*data())
        return executor.getAnchoredTensor("g")

    assert torch.equal(gradient(1.0) * 8, gradient(8.0))


def test_optimizer_state_can_be_anchored():
    options = poptorch.Options()
    options.anchorTensor("momentum", "Accl1___fc2.bias")
    executor = train(options, lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.5, 0.9)))
    options2 = poptorch.Options()
    options2.anchorTensor("g", "Gradient___fc2.bias")
    other = train(options2, lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.5, 0.9)))
    executor(*data()), other(*data())
    torch.testing.assert_close(executor.getAnchoredTensor("momentum"), other.getAnchoredTensor("g") * 0.5)


def test_value_is_that_before_it_is_changed_in_place():
    class InPlace(nn.Module):
        def forward(self, x):
            y = x * 2
            y += 1
            return y

    options = poptorch.Options()
    options.anchorTensor("before", "Mul:0")
    executor = poptorch.inferenceModel(InPlace(), options)
    assert executor(torch.ones(2)).tolist() == [3, 3]
    assert executor.getAnchoredTensor("before").tolist() == [2, 2]


def test_name_scopes_stand_behind_the_modules_in_which_they_were_opened():
    class Inner(nn.Module):
        def forward(self, x):
            with poptorch.NameScope("inside"):
                return x * 2

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            with poptorch.NameScope("outside"), poptorch.NameScope("twice"):
                y = self.inner(x)
            return y + 1

    executor = poptorch.inferenceModel(Outer())
    executor(torch.ones(1))
    assert {"outside/twice/inner/inside/Mul:0", "Add:0"} <= set(executor.getTensorNames())
    flat = poptorch.inferenceModel(Outer(), poptorch.Options().disableModuleNamescope())
    flat(torch.ones(1))
    assert "outside/twice/inside/Mul:0" in flat.getTensorNames()


def test_unknown_tensor_is_an_error_with_near_names():
    options = poptorch.Options()
    options.anchorTensor("g", "Gradient___fc3.bias")
    with pytest.raises(poptorch.Error, match=r"names 'Gradient___fc3.bias', but there is no such tensor.*Gradient___fc[12].bias"):
        train(options)(*data())


@pytest.mark.parametrize(
    ("mode", "period", "text"),
    [
        (poptorch.OutputMode.All, 3, "ALL/1"),
        (poptorch.OutputMode.EveryN, 4, "EVERYN/4"),
        (poptorch.OutputMode.Final, 1, "FINAL/1"),
        (poptorch.OutputMode.Sum, 1, "Sum/1"),
    ],
)
def test_debug_log_names_tensors_and_modes(mode, period, text, caplog):
    options = poptorch.Options()
    options.anchorTensor("g", "Gradient___fc2.bias", mode, period)
    with caplog.at_level(logging.DEBUG, logger="poptorch::python"):
        executor = train(options)
        executor(*data())
    assert f"Gradient___fc2.bias {text}" in caplog.text
    if mode is poptorch.OutputMode.EveryN:  # of one iteration none is the fourth
        with pytest.raises(AssertionError, match="if the anchor's output mode keeps one"):
            executor.getAnchoredTensor("g")


def test_the_scale_of_automatic_loss_scaling_can_be_anchored():
    model = Net().half()
    options = poptorch.Options()
    options.Training.setAutomaticLossScaling(True)
    options.anchorTensor("scale", "finalLossScale", poptorch.OutputMode.Final)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.0, loss_scaling=4.0, use_combined_accum=False)
    executor = poptorch.trainingModel(model, options, optimizer)
    inputs = [t.half() for t in (torch.rand(2, 10), torch.rand(2, 10))]
    executor.compile(*inputs)
    seen = []
    for _ in range(3):
        factor = optimizer.state_dict()["ipu_state"]["lossScaleUpdateFactor"]
        executor(*inputs)
        seen.append(executor.getAnchoredTensor("scale").item())
        assert seen[-1] == 4.0 * factor
    assert seen == [4.0, 8.0, 16.0]


def test_the_loss_scale_has_no_name_without_automatic_loss_scaling():
    executor = poptorch.trainingModel(Net())
    executor.compile(torch.rand(2, 10), torch.rand(2, 10))
    assert "finalLossScale" not in executor.getTensorNames()
