"""An executor made by hand around another module than the user's: it runs the one and shows the other."""

import copy

import pytest
import torch
from torch import nn

from softipu import poptorch


class WithLoss(nn.Module):
    """Calls a module and a loss; only its ``__call__`` can be called, ``forward`` just has the signature."""

    def __init__(self, inner, loss):
        super().__init__()
        self._call_inner = inner.__call__
        self._inner, self._loss = inner, loss

    def forward(self, args, loss_inputs):
        raise AssertionError("only the signature of this is used")

    def __call__(self, args, loss_inputs):
        output = self._call_inner(args)
        return output, self._loss(output, loss_inputs)


def executor_of(model, options=None, optimizer=None):
    return poptorch.PoplarExecutor(
        model=WithLoss(copy.copy(model), nn.MSELoss()),
        options=options,
        training=True,
        optimizer=optimizer,
        user_model=model,
        poptorch_version=poptorch.__version__,
    )


@pytest.mark.parametrize("given", [True, False])
def test_weights_are_those_of_eager_torch(given):
    torch.manual_seed(0)
    model, x, y = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)), torch.randn(6, 4), torch.randn(6, 3)
    expected = copy.deepcopy(model)
    training = executor_of(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.01) if given else None)
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.01)
    for _ in range(5):
        output, loss = training(x, y)
        want = nn.functional.mse_loss(expected(x), y)
        optimizer.zero_grad()
        want.backward()
        optimizer.step()
        torch.testing.assert_close(loss, want.detach(), rtol=1e-5, atol=1e-6)
        assert output.shape == (6, 3)
    for got, wanted in zip(model.parameters(), expected.parameters()):
        torch.testing.assert_close(got.detach(), wanted.detach(), rtol=1e-5, atol=1e-6)


def test_attributes_state_and_names_are_those_of_the_users_module():
    model = nn.Sequential(nn.Linear(4, 3))
    model.note = "mine"
    training = executor_of(model)
    training(torch.randn(2, 4), torch.randn(2, 3))
    assert training.note == "mine" and training.model is model
    assert list(training.state_dict()) == list(model.state_dict()) == ["0.weight", "0.bias"]
    zeros = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
    training.load_state_dict(zeros)
    output, _ = training(torch.randn(2, 4), torch.randn(2, 3))
    assert torch.equal(output, torch.zeros(2, 3))


def test_it_takes_the_place_of_training_model():
    model = nn.Sequential(nn.Linear(4, 3))
    training = executor_of(model)
    with pytest.raises(RuntimeError, match="has already been wrapped"):
        poptorch.trainingModel(model)
    training.destroy()
    poptorch.trainingModel(model)


def test_inference_is_the_default():
    model, x = nn.Linear(4, 3), torch.randn(2, 4)
    torch.testing.assert_close(poptorch.PoplarExecutor(model)(x), model(x).detach())
