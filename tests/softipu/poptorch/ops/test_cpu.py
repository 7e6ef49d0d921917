"""CPU: Python on the host in the middle of an inference step."""

import numpy as np
import pytest
import torch
from torch import nn

from softipu import poptorch


class OnHost(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.cpu = poptorch.CPU(function, "MyCPUOp")

    def forward(self, *tensors):
        return self.cpu(*tensors)


def test_function_sees_the_values_of_every_call():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.cpu = poptorch.CPU(self.product, "product")

        def product(self, x, y):
            assert x.device.type == "cpu"
            return x * y

        def forward(self, x, y):
            return self.cpu(self.cpu(x, y), y) * 3.0

    executor = poptorch.inferenceModel(Model())
    x = torch.randn(5, 2, 3)
    for factor in (2.0, 4.0):
        torch.testing.assert_close(executor(x, torch.tensor([factor])), x * factor * factor * 3)


def test_several_outputs_keep_their_structure():
    executor = poptorch.inferenceModel(OnHost(lambda x, y: (x * y, [x + y][0])))
    x, y = torch.randn(3), torch.tensor([2.0])
    product, total = executor(x, y)
    assert torch.equal(product, x * y) and torch.equal(total, x + y)


def test_function_may_do_what_an_ipu_cannot():
    def by_value(x):
        values = x.numpy()
        return torch.from_numpy(np.sort(values)) if float(x.sum()) > 0 else x - 1

    executor = poptorch.inferenceModel(OnHost(by_value))
    assert executor(torch.tensor([3.0, 1.0])).tolist() == [1, 3]
    assert executor(torch.tensor([-3.0, 1.0])).tolist() == [-4, 0]


@pytest.mark.parametrize("registered", [True, False])
def test_layer_on_the_host_uses_its_host_weights(registered):
    layer = nn.Linear(4, 3)
    model = OnHost(layer)
    if registered:
        model.layer = layer
    executor = poptorch.inferenceModel(model)
    x = torch.randn(2, 4)
    torch.testing.assert_close(executor(x), layer(x))
    with torch.no_grad():
        layer.weight.zero_()
    torch.testing.assert_close(executor(x), layer.bias.expand(2, 3))
    assert not layer.weight.requires_grad


def test_poptorch_ops_in_the_function_are_plain():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.cpu = poptorch.CPU(self.total, "total")

        def total(self, x):
            assert not poptorch.isRunningOnIpu()
            return poptorch.identity_loss(x, reduction="sum")

        def forward(self, x):
            return self.cpu(x), poptorch.isRunningOnIpu(), poptorch.identity_loss(x, "sum")

    first, on_ipu, second = poptorch.inferenceModel(Model(), poptorch.Options().deviceIterations(2))(torch.tensor([1.0, 2.0]))
    assert first.tolist() == second.tolist() == [1, 2] and on_ipu is True


def test_inputs_are_copies():
    executor = poptorch.inferenceModel(OnHost(lambda x: x.add_(1)))
    x = torch.zeros(2)
    assert executor(x).tolist() == [1, 1] and x.tolist() == [0, 0]


def test_outputs_must_stay_what_they_were():
    def unsteady(x):
        return x[x > 0] if x.any() else x

    executor = poptorch.inferenceModel(OnHost(unsteady))
    with pytest.raises(poptorch.Error, match=r"'MyCPUOp' returned float32\[1\], but float32\[2\] when the model was compiled"):
        executor(torch.tensor([1.0, -1.0]))


def test_training_is_refused():
    class Model(OnHost):
        def __init__(self):
            super().__init__(torch.sin)
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return poptorch.identity_loss(self.cpu(self.weight * x), "sum")

    with pytest.raises(poptorch.Error, match="only supported in inference, but 'MyCPUOp' is called in a training model"):
        poptorch.trainingModel(Model())(torch.ones(2))


def test_only_tensors_are_taken():
    model = OnHost(torch.add)
    model.forward = lambda x: model.cpu(x, 3)
    with pytest.raises(poptorch.Error, match="at index 1 is a int"):
        poptorch.inferenceModel(model)(torch.ones(2))


def test_outside_an_ipu_the_function_is_called_and_attributes_are_its_own():
    layer = nn.Linear(2, 2)
    cpu = poptorch.CPU(layer, "linear")
    x = torch.ones(1, 2)
    assert torch.equal(cpu(x), layer(x))
    assert cpu.in_features == 2
    with pytest.raises(AttributeError, match="nothing"):
        cpu.nothing  # noqa: B018
