"""Arguments of a call are bound as forward's signature says."""

import pytest
import torch
from torch import nn

from softipu import poptorch
from softipu.poptorch.inputs.arguments import bind

A, B = torch.tensor([1.0]), torch.tensor([2.0])


class Everything(nn.Module):
    def forward(self, a, b=B, *rest, y=None, scale=3, **more):
        total = a * len(more) + b
        for i, value in enumerate(rest):
            total = total + (i + 1) * value
        return scale * (total if y is None else total + y)


class Anything(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Everything()

    def forward(self, *args, **kwargs):
        return self.inner(*args, **kwargs)


@pytest.mark.parametrize("module", [Everything(), Anything()], ids=["named", "variadic"])
@pytest.mark.parametrize(
    "args, kwargs", [((A,), {}), ((A, B), {"y": A}), ((A, B, A, B), {"scale": 5, "u": A, "v": B}), ((A, B, B), {"y": None}), ((), {"a": A})]
)
def test_results_are_those_of_the_host(module, args, kwargs):
    assert torch.equal(poptorch.inferenceModel(module)(*args, **kwargs), module(*args, **kwargs))


def test_defaults_of_keywords_are_filled_in_beside_variadic_arguments():
    bound = bind(Everything(), (A, B, A), {"more": B})
    assert bound.args == (A, B, A) and bound.names == ("a", "b", "*args[0]")
    assert bound.kwargs == {"y": None, "scale": 3, "more": B}


def test_what_differs_from_the_compiled_call_is_told_by_name():
    executor = poptorch.inferenceModel(Everything())
    executor(A, B, A, y=A, u=B, scale=5)
    for args, kwargs, message in [
        ((A, B, A), {"u": B, "scale": 5}, "Type mismatch for y: expected .*Tensor.* but got .*None"),
        ((A, B, A), {"y": A, "scale": 5}, "Missing arguments: u"),
        ((A, B, A), {"y": A, "u": B}, "mismatch for scale: expected 5 but got 3"),
        ((A, B), {"y": A, "u": B, "scale": 5}, "Number of positional arguments mismatch: expected 3 arguments but got 2"),
    ]:
        with pytest.raises(poptorch.Error, match=message):
            executor(*args, **kwargs)


def test_a_missing_argument_is_an_error_of_poptorch_or_of_forward_itself():
    with pytest.raises(poptorch.Error, match="Mandatory parameter a missing"):
        poptorch.inferenceModel(Everything())()
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        poptorch.inferenceModel(Anything())()
