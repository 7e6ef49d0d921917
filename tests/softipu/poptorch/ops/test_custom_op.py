"""custom_op: a user's own operation, by a registered Python implementation."""

import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from softipu import poptorch
from softipu.poptorch import custom_ops


@pytest.fixture
def cube():
    @custom_ops.register("Cube", "com.acme", 1)
    def compute(inputs, attributes):
        x, bias = inputs
        return [x**3 * attributes.get("scale", 1.0) + bias, x**3]

    yield compute
    custom_ops.unregister("Cube", "com.acme", 1)


class Model(nn.Module):
    def __init__(self, attributes=None, name="Cube"):
        super().__init__()
        self.attributes, self.name = attributes, name

    def forward(self, x, bias):
        return poptorch.custom_op([x, bias], self.name, "com.acme", 1, example_outputs=[x, x], attributes=self.attributes)


def test_implementation_computes_the_outputs(cube):
    out = poptorch.inferenceModel(Model())(torch.full((1, 8), 2.0), torch.full((1, 8), 4.0))
    assert torch.equal(out[0], torch.full((1, 8), 12.0)) and torch.equal(out[1], torch.full((1, 8), 8.0))


def test_attributes_reach_the_implementation(cube):
    out = poptorch.inferenceModel(Model({"scale": 0.5}))(torch.full((1, 8), 2.0), torch.full((1, 8), 4.0))
    assert torch.equal(out[0], torch.full((1, 8), 8.0))


def test_shapes_are_those_that_the_implementation_returns():
    custom_ops.register("Reduce", "com.acme", 1)(lambda inputs, attributes: [getattr(inputs[0], attributes["how"])()])
    x = torch.tensor([5.0, 6.0, 7.0])
    for how, expected in (("mean", 6.0), ("sum", 18.0)):
        (out,) = poptorch.inferenceModel(Model({"how": how}, "Reduce"))(x, x)
        assert out.shape == () and out.item() == expected
    custom_ops.unregister("Reduce", "com.acme", 1)


def test_gradient_is_that_of_the_implementation(cube):
    class Training(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([1.5, -2.0]))

        def forward(self, x):
            y, _ = poptorch.custom_op([self.weight * x, x], "Cube", "com.acme", 1, example_outputs=[x, x])
            return F.l1_loss(y, torch.full_like(y, 100.0), reduction="sum")

    model = Training()
    x = torch.tensor([1.0, 2.0])
    expected = model.weight.detach() + 0.1 * 3 * (model.weight.detach() * x) ** 2 * x
    poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))(x)
    torch.testing.assert_close(model.weight.detach(), expected)


def test_unknown_operation_says_how_to_register_one():
    with pytest.raises(poptorch.Error, match=r"'Cube' of domain 'com.acme', version 1.*custom_ops.register\('Cube', 'com.acme', 1\)"):
        poptorch.inferenceModel(Model())(torch.ones(1), torch.ones(1))


def test_implementation_must_return_tensors():
    custom_ops.register("Cube", "com.acme", 1)(lambda inputs, attributes: 3)
    with pytest.raises(poptorch.Error, match="must return a list of tensors"):
        poptorch.inferenceModel(Model())(torch.ones(1), torch.ones(1))
    custom_ops.unregister("Cube", "com.acme", 1)


def test_outside_an_ipu_the_outputs_are_zeros_like_the_examples():
    out = Model()(torch.ones(2, 3), torch.ones(1))
    assert [t.tolist() for t in out] == [[[0.0] * 3] * 2] * 2


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({1: 2}, "All attribute keys must be strings"),
        ({"a": None}, "Attribute values must be floats, ints, strings"),
        ({"a": [None]}, "Attribute values must be floats, ints, strings"),
        ({"a": [1, 2.0]}, "The types in a list/tuple attribute must all be the same"),
        ({"a": "a\u1f00b"}, "a\u1f00b contains non-ASCII characters."),
        ({"a": ["x", "a\u1f00b"]}, "a\u1f00b contains non-ASCII characters."),
    ],
)
def test_attributes_of_other_types_are_refused(cube, attributes, message):
    with pytest.raises(ValueError, match=message):
        poptorch.inferenceModel(Model(attributes))(torch.ones(1), torch.ones(1))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (sys.float_info.max, r"1\.79769e\+308 is too high for a Popart float attribute\."),
        (-sys.float_info.max, r"-1\.79769e\+308 is too low for a Popart float attribute\."),
        ([1.0, -sys.float_info.max], r"-1\.79769e\+308 is too low for a Popart float attribute\."),
        (2**70, "1180591620717411303424 is too high for a Popart int attribute"),
    ],
)
def test_numbers_that_popart_cannot_hold_are_refused(cube, value, message):
    with pytest.raises(poptorch.Error, match=message):
        poptorch.inferenceModel(Model({"scale": value}))(torch.ones(1), torch.ones(1))


def test_attributes_that_popart_can_hold(cube):
    attributes = {
        "scale": 2.0,
        "zero": 0,
        "minus": -5,
        "floats": (1.0, 2.0),
        "ints": [1, 2],
        "text": "\" ' \\ end",
        "texts": ["\x01", "\x02"],
    }
    out = poptorch.inferenceModel(Model(attributes))(torch.ones(1), torch.zeros(1))
    assert out[0].tolist() == [2.0]
