"""A step may ask for values of constants, and for shapes that follow from them; others are refused."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from softipu import poptorch
from softipu.errors import Error

COUNTS = torch.tensor([2, 0, 1])
MASK = torch.tensor([True, False, True])
X = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])

ASKING = {
    "number of a constant outside the step": lambda x: x * int(COUNTS.max()),
    "number of a constant inside the step": lambda x: x * (torch.tensor([1.0, 2.0]) * 3).sum().item(),
    "branch": lambda x: x * 2 if torch.equal(COUNTS, torch.tensor([2, 0, 1])) else x,
    "list": lambda x: x.sum(torch.tensor([0, 1]).tolist()),
    "array": lambda x: x * float(torch.arange(4.0).numpy().sum()),
    "mask": lambda x: x[MASK],
    "mask that selects": lambda x: torch.masked_select(x, MASK),
    "mask that selects from something narrower": lambda x: x[:1].masked_select(X > 4),
    "element of a constant": lambda x: x * int(COUNTS[0]) + COUNTS[2].item(),
    "branch on an element": lambda x: x * 2 if COUNTS[0] > 1 else x,
    "as many times as an element says": lambda x: sum(x**n for n in range(COUNTS[0])),
    "mask in second place": lambda x: x[:, torch.tensor([True, True, False])],
    "places that are not zero": lambda x: x[:, COUNTS.nonzero().squeeze(1)],
    "counts of rows": lambda x: x.repeat_interleave(COUNTS, 0),
    "one count": lambda x: torch.repeat_interleave(x, 2, 1),
    "one count for all": lambda x: torch.repeat_interleave(x, 2),
    "number of classes": lambda x: F.one_hot(COUNTS).float() @ x,
    "bins": lambda x: torch.bincount(COUNTS).float() @ x,
    "distinct": lambda x: x * len(torch.unique(torch.tensor([1, 1, 2]))),
}


class Asking(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.weight, self.function = nn.Parameter(torch.full((3,), 0.5)), function

    def forward(self, x):
        y = self.function(x * self.weight)
        return y, poptorch.identity_loss((y**2).sum(), "none")


@pytest.mark.parametrize("name", ASKING)
def test_values_and_shapes_from_constants_are_those_of_eager_torch(name):
    expected = Asking(ASKING[name])
    y, loss = expected(X)
    loss.backward()
    model = Asking(ASKING[name])
    got, got_loss = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0))(X)
    torch.testing.assert_close(got, y.detach())
    torch.testing.assert_close(got_loss, loss.detach())
    torch.testing.assert_close(model.weight.detach(), 0.5 - expected.weight.grad)


def test_counts_from_the_host_repeat_rows_where_their_sum_is_given():
    class Repeating(nn.Module):
        def forward(self, x, counts):
            return torch.repeat_interleave(x, counts, dim=0, output_size=3)

    executor = poptorch.inferenceModel(Repeating())
    for counts in ([2, 0, 1], [0, 3, 0], [1, 1, 1]):
        n = torch.tensor(counts)
        assert torch.equal(executor(X, n), X.repeat_interleave(n, 0))


def test_constant_that_the_step_writes_is_not_known_any_more():
    class Writing(nn.Module):
        def forward(self, x):
            counts = torch.tensor([1.0, 2.0])
            counts[0] = x.sum()
            return x * counts.sum().item()

    with pytest.raises(poptorch.Error, match="reads the value of a tensor on the host"):
        poptorch.inferenceModel(Writing())(X)


def test_values_of_inputs_and_of_weights_are_refused():
    class Reading(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(()))

        def forward(self, x, use_weight):
            return x * int(self.weight if use_weight else x.sum())

    for use_weight in (True, False):
        with pytest.raises(poptorch.Error, match="reads the value of a tensor on the host"):
            poptorch.inferenceModel(Reading())(X, use_weight)


def test_masks_from_the_host_are_refused_in_poptorchs_words():
    class Masked(nn.Module):
        def forward(self, x, mask):
            return x[mask]

    with pytest.raises(
        poptorch.Error,
        match=r"Indexing using boolean or byte tensor masks is unsupported .* The IPU cannot support dynamic output shapes\.",
    ):
        poptorch.inferenceModel(Masked())(X, MASK)


def test_random_numbers_are_never_taken_for_constants():
    class Drawing(nn.Module):
        def forward(self, x):
            return x * torch.rand(3).sum().item()

    with pytest.raises(poptorch.Error, match="reads the value of a tensor on the host"):
        poptorch.inferenceModel(Drawing())(X)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_value_that_was_written_is_not_known_in_any_mode(mode):
    class Written(nn.Module):
        def forward(self, x):
            count = torch.ones(3)
            count.view(-1).add_(x)
            return x * count.sum().item()

    with mode(), pytest.raises(Error, match="reads the value of a tensor"):
        poptorch.inferenceModel(Written())(torch.ones(3))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_constants_are_known_in_any_mode(mode):
    class Constant(nn.Module):
        def forward(self, x):
            return x * torch.ones(3).sum().item()

    with mode():
        assert poptorch.inferenceModel(Constant())(torch.ones(3)).tolist() == [3.0] * 3
