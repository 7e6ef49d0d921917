"""Plain tensors that forward writes to, and losses without weights: what has no effect runs, with a warning."""

import torch
from torch import nn

from softipu import poptorch


def test_a_module_without_inputs_and_results_runs(caplog):
    class Nothing(nn.Module):
        def __init__(self):
            super().__init__()
            self.x = torch.tensor([1.0])

        def forward(self):
            self.x += self.x

    executor = poptorch.inferenceModel(Nothing())
    assert executor() is None
    assert executor() is None
    assert "changes in place a tensor that is neither a buffer nor an input, and that nothing reads" in caplog.text


def test_training_with_a_loss_that_no_weight_enters_changes_nothing(caplog):
    class Apart(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 1)

        def forward(self, x):
            x = x.repeat(3, 2)
            return x, poptorch.identity_loss(x**2, reduction="sum")

    module = Apart()
    before = module.linear.weight.detach().clone()
    out, loss = poptorch.trainingModel(module)(torch.tensor([[1.0, 2.0]]))
    assert out.tolist() == [[1.0, 2.0, 1.0, 2.0]] * 3
    assert loss.item() == 30.0
    assert torch.equal(module.linear.weight.detach(), before)
    assert "the loss does not depend on any trainable parameter, so no weight will change" in caplog.text


def test_training_without_any_trainable_parameter_changes_nothing(caplog):
    module = nn.Sequential(nn.Linear(2, 1)).requires_grad_(False)

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.module = module

        def forward(self, x):
            return poptorch.identity_loss(self.module(x), reduction="sum")

    x = torch.ones(1, 2)
    expected = module(x).sum()
    torch.testing.assert_close(poptorch.trainingModel(Loss())(x), expected)
    torch.testing.assert_close(module(x).sum(), expected, rtol=0, atol=0)
    assert "the loss does not depend on any trainable parameter, so no weight will change" in caplog.text
