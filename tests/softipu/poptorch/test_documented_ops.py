"""Every operation that PopTorch documents: outputs and gradients as eager PyTorch's, in float and in half."""

import pytest
import torch
from torch import nn

from softipu import poptorch
from tests.softipu.poptorch.documented_ops import EXAMPLES


class Step(nn.Module):
    """An operation whose float inputs are parameters, with a loss over all its float outputs."""

    def __init__(self, example):
        super().__init__()
        torch.manual_seed(0)
        function = example.make()
        self.layer = function if isinstance(function, nn.Module) else None
        self.function = function if self.layer is None else None
        self.places = []
        for i, tensor in enumerate(example.inputs()):
            if tensor.is_floating_point():
                self.register_parameter(f"float{i}", nn.Parameter(tensor))
            self.places.append(tensor.is_floating_point())

    def forward(self, *others):
        remaining = iter(others)
        inputs = [getattr(self, f"float{i}") if is_float else next(remaining) for i, is_float in enumerate(self.places)]
        outputs = tensors_in((self.layer or self.function)(*inputs))
        loss = sum(((t.float() * weights_like(t)).sum() for t in outputs if t.is_floating_point()), torch.zeros(()))
        return (*outputs, poptorch.identity_loss(loss, "none"))


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in tensors_in(item)]


def weights_like(tensor):
    return torch.linspace(0.5, 1.5, tensor.numel()).reshape(tensor.shape)


def others(example):
    return [t for t in example.inputs() if not t.is_floating_point()]


def eager(model, inputs, has_gradient):
    """Outputs, and parameters after one step of SGD, in float32."""
    with torch.set_grad_enabled(has_gradient):
        outputs = model(*inputs)
    if has_gradient:
        outputs[-1].backward()
    after = {n: p.detach() - (0.25 * p.grad if p.grad is not None else 0) for n, p in model.named_parameters()}
    return [t.detach() for t in outputs], after


def train(model, inputs):
    executor = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.25))
    outputs = executor(*inputs)
    return outputs, {n: p.detach() for n, p in model.named_parameters()}


def assert_same(got, expected, rtol, atol):
    if expected.dtype in (torch.int64, torch.float64):
        expected = expected.to({torch.int64: torch.int32, torch.float64: torch.float32}[expected.dtype])
    torch.testing.assert_close(got.float(), expected.float(), rtol=rtol, atol=atol)


FIXED = sorted(n for n, e in EXAMPLES.items() if not e.is_random)
CASES = [(n, torch.float32) for n in FIXED] + [(n, torch.float16) for n in FIXED if EXAMPLES[n].in_half]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_outputs_and_gradients_are_those_of_eager_torch(name, dtype):
    example = EXAMPLES[name]
    model, inputs = Step(example).to(dtype), others(example)
    expected, expected_after = eager(Step(example).to(dtype).float(), inputs, example.has_gradient)
    if example.has_gradient:
        got, after = train(model, inputs)
    else:
        got, after = poptorch.inferenceModel(model)(*inputs), expected_after
    # Half has 11 bits: what a few roundings of inputs, gradients and results may add up to.
    rtol, atol = (1e-5, 1e-6) if dtype is torch.float32 else (4e-3, 4e-3)
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        assert_same(a, b, rtol, atol)
        if b.is_floating_point() and a is not got[-1]:
            assert a.dtype in (dtype, torch.float32)
    for key in expected_after:
        assert_same(after[key], expected_after[key], rtol, atol)


@pytest.mark.parametrize("name", sorted(n for n, e in EXAMPLES.items() if e.is_random))
def test_random_operations_draw_anew_and_by_the_seed(name):
    example = EXAMPLES[name]

    def draw(seed):
        model = Step(example)
        executor = poptorch.trainingModel(model, poptorch.Options().randomSeed(seed), torch.optim.SGD(model.parameters(), lr=0.0))
        return [[t.clone() for t in executor(*others(example))] for _ in range(4)]

    first, again, other = draw(1), draw(1), draw(2)
    for a, b in zip(first, again):
        assert all(torch.equal(p, q) for p, q in zip(a, b))
    assert any(not torch.equal(p, q) for a, b in zip(first, other) for p, q in zip(a, b))
    assert any(not torch.equal(p, q) for a, b in zip(first, first[1:]) for p, q in zip(a, b))
