"""Every operation that PopTorch documents, called in several ways: outputs, gradients through one update, and a price; float and half."""

from pathlib import Path

import pytest
import torch
from torch import nn

from softipu import poptorch
from softipu.cost.workload import read_step
from tests.softipu.poptorch.operations.documented import DOCUMENTED, ELSEWHERE, VARIANTS

EXAMPLES = {**DOCUMENTED, **VARIANTS}
RATE = 0.25


class Step(nn.Module):
    """An operation whose float inputs are parameters, with a loss over all its float outputs.

    Args:
        weights: of the outputs in the loss; made from the outputs if None.
    """

    def __init__(self, example, weights=None):
        super().__init__()
        torch.manual_seed(0)
        function = example.make()
        self.layer = function if isinstance(function, nn.Module) else None
        self.function = function if self.layer is None else None
        self.weights, self.places = weights, []
        for i, tensor in enumerate(example.inputs()):
            if tensor.is_floating_point():
                self.register_parameter(f"float{i}", nn.Parameter(tensor))
            self.places.append(tensor.is_floating_point())

    def forward(self, *others):
        remaining = iter(others)
        inputs = [getattr(self, f"float{i}") if is_float else next(remaining) for i, is_float in enumerate(self.places)]
        outputs = tensors_in((self.layer or self.function)(*inputs))
        floats = [t for t in outputs if t.is_floating_point()]
        weights = self.weights or [weights_like(t) for t in floats]
        losses = [(t.float() * w).sum() for t, w in zip(floats, weights)]
        return (*outputs, poptorch.identity_loss(sum(losses[1:], losses[0]) if losses else torch.zeros(()), "none"))


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in tensors_in(item)]


def weights_like(tensor):
    return torch.linspace(0.5, 1.5, tensor.numel()).reshape(tensor.shape)


def others(example):
    return [t for t in example.inputs() if not t.is_floating_point()]


def eager(example, dtype):
    """Outputs, and parameters after one step of SGD, in float32 from inputs and parameters that were rounded to ``dtype``."""
    model = Step(example).to(dtype).float()
    with torch.set_grad_enabled(example.has_gradient):
        outputs = model(*others(example))
    if example.has_gradient:
        outputs[-1].backward()
    after = {n: p.detach() - (RATE * p.grad if p.grad is not None else 0) for n, p in model.named_parameters()}
    return [t.detach() for t in outputs], after


def assert_same(got, expected, rtol, atol):
    if expected.dtype in (torch.int64, torch.float64):
        expected = expected.to({torch.int64: torch.int32, torch.float64: torch.float32}[expected.dtype])
    torch.testing.assert_close(got.float(), expected.float(), rtol=rtol, atol=atol)


def assert_priced(executor):
    """Every op of the step has a rule that says what it costs: reading the step raises for one that has none."""
    assert read_step(executor.step) is not None


FIXED = sorted(n for n, e in EXAMPLES.items() if not e.is_random)
CASES = [(n, torch.float32) for n in FIXED] + [(n, torch.float16) for n in FIXED if EXAMPLES[n].in_half]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_outputs_and_gradients_are_those_of_eager_torch_and_all_work_is_priced(name, dtype):
    example = EXAMPLES[name]
    expected, expected_after = eager(example, dtype)
    model = Step(example, [weights_like(t) for t in expected[:-1] if t.is_floating_point()]).to(dtype)
    if example.has_gradient:
        executor = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=RATE))
        got = executor(*others(example))
        after = {n: p.detach() for n, p in model.named_parameters()}
    else:
        executor = poptorch.inferenceModel(model)
        got, after = executor(*others(example)), expected_after
    # Half has 11 bits: what a few roundings of inputs, gradients and results may add up to.
    rtol, atol = (1e-5, 1e-6) if dtype is torch.float32 else (4e-3, 4e-3)
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        assert_same(a, b, rtol, atol)
        if b.is_floating_point() and a is not got[-1]:
            assert a.dtype in (dtype, torch.float32)
    for key in expected_after:
        assert_same(after[key], expected_after[key], rtol, atol)
    assert_priced(executor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", sorted(n for n, e in EXAMPLES.items() if e.is_random))
def test_random_operations_draw_anew_and_by_the_seed(name, dtype):
    example = EXAMPLES[name]

    def draw(seed):
        model = Step(example).to(dtype)
        executor = poptorch.trainingModel(model, poptorch.Options().randomSeed(seed), torch.optim.SGD(model.parameters(), lr=0.0))
        return [[t.clone() for t in executor(*others(example))] for _ in range(4)]

    first, again, other = draw(1), draw(1), draw(2)
    assert first[0][0].dtype == dtype
    for a, b in zip(first, again):
        assert all(torch.equal(p, q) for p, q in zip(a, b))
    assert any(not torch.equal(p, q) for a, b in zip(first, other) for p, q in zip(a, b))
    assert any(not torch.equal(p, q) for a, b in zip(first, first[1:]) for p, q in zip(a, b))


@pytest.mark.parametrize("name", sorted(n for n, e in EXAMPLES.items() if e.is_random and e.is_scaling))
def test_gradient_of_what_was_drawn_is_what_was_drawn(name):
    example = EXAMPLES[name]
    (given,) = example.inputs()
    model = Step(example, [weights_like(given)])
    executor = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=RATE))
    drawn, _ = executor()
    (after,) = (p.detach() for p in model.parameters())
    torch.testing.assert_close(after, given - RATE * weights_like(given) * drawn / given, rtol=1e-5, atol=1e-6)
    assert_priced(executor)


def test_no_documented_operation_is_without_an_example():
    names = (Path(__file__).parent / "documented_names.txt").read_text(encoding="utf-8").split()
    missing = set(names) - set(DOCUMENTED) - set(ELSEWHERE)
    assert len(names) == 225 and not missing
