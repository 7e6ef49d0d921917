"""ipu_print_tensor: values and gradients on the standard error stream, in the layout of an IPU's program."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from softipu import poptorch
from softipu.poptorch.ops.tensor_text import TensorTextFormat, tensor_text


class Printing(nn.Module):
    def __init__(self, *arguments, **keywords):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(()))
        self.arguments, self.keywords = arguments, keywords

    def forward(self, x):
        return poptorch.ipu_print_tensor(x + 1, *self.arguments, **self.keywords) + self.bias


LAYOUTS = [
    ((1000, 3, 75, 8, "auto", " ", "{", "}"), "title: {\n {1.4962566 1.7682219}\n {1.0884774 1.1320305}\n}\n"),
    (
        (500, 2, 15, 8, "scientific", ",", "[", "]"),
        "title: [\n [1.4962566e+00,\n   1.7682219e+00]\n [1.0884774e+00,\n   1.1320305e+00]\n]\n",
    ),
    ((1500, 1, 125, 8, "fixed", ";", "(", ")"), "title: (\n (1.4962566;1.7682219)\n (1.0884774;1.1320305)\n)\n"),
]


@pytest.mark.parametrize(("layout", "expected"), LAYOUTS)
def test_layout_is_that_of_an_ipu(capfd, layout, expected):
    torch.manual_seed(0)
    x = torch.rand(2, 2)
    result = poptorch.inferenceModel(Printing("title", True, *layout))(x)
    assert capfd.readouterr().err == expected
    assert torch.equal(result, x + 1)


def test_prints_once_for_every_micro_batch(capfd):
    options = poptorch.Options().deviceIterations(3).replicationFactor(2)
    poptorch.inferenceModel(Printing("t"), options)(torch.arange(6.0).view(6, 1))
    assert capfd.readouterr().err == "".join(f"t: (\n ({i + 1:.3f})\n)\n" for i in range(6))


class Loss(nn.Module):
    def __init__(self, print_gradient):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0]))
        self.print_gradient = print_gradient

    def forward(self, x):
        return F.mse_loss(poptorch.ipu_print_tensor(self.weight * x, "product", self.print_gradient), torch.zeros_like(x))


def test_gradient_is_printed_in_the_backward_pass(capfd):
    poptorch.trainingModel(Loss(True))(torch.tensor([3.0]))
    assert capfd.readouterr().err == "product: (6.000)\nGradient__product: (12.00)\n"


def test_gradient_is_not_printed_when_not_wanted(capfd):
    poptorch.trainingModel(Loss(False))(torch.tensor([3.0]))
    assert capfd.readouterr().err == "product: (6.000)\n"


def test_training_is_the_same_with_and_without():
    def weights(module):
        executor = poptorch.trainingModel(module, optimizer=torch.optim.SGD(module.parameters(), lr=0.01))
        for _ in range(3):
            executor(torch.tensor([3.0]))
        return module.weight.item()

    class Plain(Loss):
        def forward(self, x):
            return F.mse_loss(self.weight * x, torch.zeros_like(x))

    assert weights(Loss(True)) == weights(Plain(True))


def test_print_whose_result_is_not_used_is_dropped(capfd):
    class Unused(nn.Module):
        def forward(self, x):
            poptorch.ipu_print_tensor(x, "gone")
            return x * 2

    poptorch.inferenceModel(Unused())(torch.ones(2))
    assert capfd.readouterr().err == ""


def test_result_has_memory_of_its_own():
    class InPlace(nn.Module):
        def forward(self, x):
            y = poptorch.ipu_print_tensor(x)
            y += 1
            return x * 1, y

    x, y = poptorch.inferenceModel(InPlace())(torch.zeros(2))
    assert x.tolist() == [0, 0] and y.tolist() == [1, 1]


def test_nothing_is_printed_outside_an_ipu(capfd):
    x = torch.ones(2)
    assert poptorch.ipu_print_tensor(x, "t") is x
    assert capfd.readouterr().err == ""


def test_only_tensors_are_printed():
    with pytest.raises(poptorch.Error, match="prints a torch.Tensor, given a int: 3"):
        poptorch.ipu_print_tensor(3)


def test_unknown_float_format():
    with pytest.raises(KeyError, match="'hex'.*auto, fixed, scientific, none"):
        poptorch.ipu_print_tensor(torch.ones(1), float_format="hex")


# The layout itself


def text(values, **form):
    return tensor_text(torch.as_tensor(values), TensorTextFormat(**form))


def test_numbers_line_up():
    assert text([1.5, -20.25, 3.0]) == "(  1.50, -20.25,   3.00)"
    assert text([7, -10, 123456]) == "(     7,    -10, 123456)"
    assert text([True, False]) == "(1, 0)"
    assert text([float("inf"), 1.0, float("nan")]) == "(  inf, 1.000,   nan)"


def test_automatic_format_is_scientific_when_digits_do_not_reach():
    assert text([1e-7, 1.0]) == "(1.000e-07, 1.000e+00)"
    assert text([123456.0]) == "(1.235e+05)"
    assert text([123456.0], float_format="fixed") == "(123456)"


def test_no_common_format():
    assert text([1.5, 1e-9], float_format="none") == "(1.5, 1e-09)"
    assert text([1.5, 100.0], digits=0) == "(1.5, 100)"


def test_scalar_and_deep_tensors():
    assert text(2.0) == "2.000"
    assert text([[[1], [2]]]) == "(\n (\n  (1)\n  (2)\n )\n)"


def test_large_tensors_are_shortened_to_their_edges():
    lines = tensor_text(torch.arange(2000).view(100, 20), TensorTextFormat()).split("\n")
    assert lines[1] == " (   0,    1,    2, ...,   17,   18,   19)"
    assert lines[4] == " ..." and len(lines) == 9
    assert lines[-2] == " (1980, 1981, 1982, ..., 1997, 1998, 1999)"
    assert "..." not in text(list(range(2000)), summarise_threshold=0)
    assert text(list(range(5)), summarise_threshold=4, edge_items=1) == "(0, ..., 4)"


def test_long_lines_go_on_in_the_next():
    assert text(list(range(8)), max_line_width=12) == "(0, 1, 2, 3,\n  4, 5, 6,\n  7)"
    assert "\n" not in text(list(range(100)), max_line_width=0)
