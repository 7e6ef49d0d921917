"""What an IPU cannot do is refused when the step is captured, with the user's own line."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from softipu import poptorch
from softipu.errors import CaptureError


class Net(nn.Module):
    """Returns an mse loss of what ``body(module, w*x)`` makes."""

    def __init__(self, body):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))
        self.register_buffer("seen", torch.zeros(3))
        self.body, self.plain, self.kept, self.calls = body, torch.zeros(3), [], 0

    def forward(self, x):
        return F.mse_loss(self.body(self, self.w * x), torch.zeros(3))


def branch(m, y):
    return y if y.sum() > 0 else -y  # MARK: branch


def item(m, y):
    return y * y.sum().item()  # MARK: item


def python_float(m, y):
    return y * float(y.mean())  # MARK: python_float


def to_list(m, y):
    return y * len(y.tolist())  # MARK: to_list


def mask(m, y):
    return F.pad(y[y > 0], (0, 3))[:3]  # MARK: mask


def nonzero(m, y):
    return y + y.nonzero().sum()  # MARK: nonzero


def cpu(m, y):
    return y.cpu()  # MARK: cpu


def numpy(m, y):
    return y * y.detach().numpy().sum()  # MARK: numpy


def cuda(m, y):
    return y.to("cuda:0")  # MARK: cuda


def backward(m, y):
    y.sum().backward()  # MARK: backward
    return y


REFUSED = {
    branch: "value of a tensor on the host", item: "value of a tensor on the host", python_float: "value of a tensor on the host",
    to_list: "list", mask: "shape depends on data", nonzero: "shape depends on data", cpu: "off the IPU", numpy: "NumPy|off the IPU",
    cuda: "off the IPU", backward: "backward",
}  # fmt: skip


def line_of(name):
    with open(__file__) as file:
        return next(i for i, text in enumerate(file, 1) if text.rstrip().endswith(f"# MARK: {name}"))


@pytest.mark.parametrize("body", REFUSED, ids=lambda f: f.__name__)
def test_refused_with_the_users_line(body):
    with pytest.raises(CaptureError, match=REFUSED[body]) as caught:
        poptorch.trainingModel(Net(body))(torch.ones(3))
    assert caught.value.location == f"{__file__}:{line_of(body.__name__)}"
    assert "Instead: " in str(caught.value)


def test_tensors_left_on_the_module_are_refused_and_taken_away():
    def keep(m, y):
        m.last = y
        m.kept.append(y)
        return y

    model = Net(keep)
    with pytest.raises(CaptureError, match="keeps tensors in self.kept, self.last|keeps tensors in self.last, self.kept"):
        poptorch.trainingModel(model)(torch.ones(3))
    assert model.kept == [] and not hasattr(model, "last")


def test_rebinding_a_buffer_is_refused_by_name():
    def rebind(m, y):
        m.seen = m.seen + 1
        return y

    with pytest.raises(poptorch.Error, match="Buffer seen is reassigned within the model"):
        poptorch.trainingModel(Net(rebind))(torch.ones(3))


def test_changing_a_plain_tensor_attribute_is_refused():
    def change(m, y):
        m.plain += 1
        return y + m.plain

    with pytest.raises(CaptureError, match="register_buffer"):
        poptorch.trainingModel(Net(change))(torch.ones(3))


def test_the_users_own_error_comes_through():
    def mistake(m, y):
        raise KeyError("user-mistake")

    with pytest.raises(KeyError, match="user-mistake"):
        poptorch.trainingModel(Net(mistake))(torch.ones(3))


def test_a_failed_capture_leaves_a_usable_wrapper():
    executor = poptorch.trainingModel(Net(lambda m, y: y))
    with pytest.raises(RuntimeError):
        executor(torch.ones(5))
    assert executor(torch.ones(3)).item() == pytest.approx(1.0)
    assert executor.w.shape == (3,)


def test_python_runs_once():
    def count(m, y):
        m.calls += 1
        return y * m.calls

    model = Net(count)
    executor = poptorch.inferenceModel(model)
    assert [executor(torch.ones(3)).item() for _ in range(3)] == [1.0, 1.0, 1.0] and model.calls == 1


def test_running_on_ipu_is_told_while_captured():
    executor = poptorch.inferenceModel(Net(lambda m, y: y * (2.0 if poptorch.isRunningOnIpu() else 1.0)))
    assert executor(torch.ones(3)).item() == 4.0 and not poptorch.isRunningOnIpu()


def test_no_loss_and_independent_losses_are_errors():
    class NoLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return (self.w * x).sum()

    class Two(NoLoss):
        def forward(self, x):
            y = self.w * x
            return poptorch.identity_loss(y.sum(), "none"), poptorch.identity_loss(y.mean(), "none")

    with pytest.raises(poptorch.Error, match="Couldn't find a loss in graph"):
        poptorch.trainingModel(NoLoss())(torch.ones(3))
    with pytest.raises(poptorch.Error, match="Multiple independent losses found in graph. Graph must have one final loss. Wrap"):
        poptorch.trainingModel(Two())(torch.ones(3))


@pytest.mark.parametrize("reduction, factor", [("sum", 3.0), ("mean", 1.0), ("none", 3.0)])
def test_identity_loss_reductions(reduction, factor):
    class Net1(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.zeros(()))

        def forward(self, x):
            return poptorch.identity_loss(self.w * x, reduction)

    model = Net1()
    poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=1.0))(torch.ones(3))
    assert model.w.item() == -factor


MISMATCHES = {
    "shape": ((torch.ones(2),), "Shape mismatch for x"),
    "dtype": ((torch.ones(3, dtype=torch.int32),), "Data type mismatch for x"),
    "type": (([torch.ones(3)],), "Type mismatch for x"),
}


@pytest.mark.parametrize("kind", MISMATCHES)
def test_other_inputs_than_compiled_for_are_refused(kind):
    executor = poptorch.inferenceModel(Net(lambda m, y: y))
    executor(torch.ones(3))
    args, message = MISMATCHES[kind]
    with pytest.raises(poptorch.Error, match=message):
        executor(*args)


def test_zero_sized_inputs_are_refused():
    with pytest.raises(poptorch.Error, match=r"Zero-sized tensors are unsupported \(Got shape \[0, 2\]\)"):
        poptorch.inferenceModel(nn.Linear(2, 2))(torch.ones(0, 2))


def test_missing_and_surplus_arguments():
    executor = poptorch.inferenceModel(nn.Linear(2, 2))
    with pytest.raises(poptorch.Error, match="Mandatory parameter input missing"):
        executor()
    with pytest.raises(AssertionError, match="Too many arguments"):
        executor(torch.ones(1, 2), torch.ones(1, 2))
    with pytest.raises(AssertionError, match="Unknown argument"):
        executor(wrong=torch.ones(1, 2))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW, poptorch.optim.LAMB])
@pytest.mark.parametrize("how", ["detached", "frozen"])
def test_a_loss_without_trainable_parameters_runs_with_a_warning(how, optimizer, caplog):
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2).requires_grad_(how == "detached")

        def forward(self, x):
            y = self.layer(x).detach() if how == "detached" else self.layer(x)
            return y, poptorch.identity_loss(y.sum(), "none")

    model, x = Fixed(), torch.randn(4, 3)
    weight = model.layer.weight.detach().clone()
    trainer = poptorch.trainingModel(model, optimizer=optimizer(model.parameters(), lr=0.5))
    for _ in range(2):
        y, _ = trainer(x)
    torch.testing.assert_close(y, F.linear(x, weight, model.layer.bias.detach()))
    assert torch.equal(model.layer.weight.detach(), weight)
    assert [r.getMessage().startswith("softipu: the loss does not depend on any trainable parameter") for r in caplog.records].count(
        True
    ) == 1
