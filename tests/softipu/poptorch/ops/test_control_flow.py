"""for_loop and cond: bodies become inner graphs, pass everything by value, and say what is wrong with them."""

import pytest
import torch
from torch import nn

from softipu import poptorch
from softipu.graph.python_calls import needs_interpreter, with_inner_graphs


class Forward(nn.Module):
    """A module whose forward is a function of (module, *tensors)."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.linear = nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.5)

    def forward(self, *tensors):
        return self.function(self, *tensors)


def run(function, *tensors, options=None):
    torch.manual_seed(0)
    return poptorch.inferenceModel(Forward(function), options)(*tensors)


# for_loop


def test_loop_feeds_outputs_to_inputs():
    def forward(module, x, y):
        return poptorch.for_loop(10, lambda a, b: (a * b, b + 1), [x, y])

    x, y = torch.tensor([0.1]), torch.tensor([0.2])
    got = run(forward, x, y)
    for _ in range(10):
        x, y = x * y, y + 1
    assert torch.equal(got[0], x) and torch.equal(got[1], y)


def test_loop_uses_weights_and_tensors_from_around():
    def forward(module, x, y):
        return poptorch.for_loop(3, lambda a: module.linear(a) + y, [x])[0]

    x, y = torch.randn(2, 4), torch.randn(2, 4)
    module = Forward(forward)
    executor = poptorch.inferenceModel(module)
    expected = x
    for _ in range(3):
        expected = module.linear(expected) + y
    torch.testing.assert_close(executor(x, y), expected.detach())
    assert needs_interpreter(executor.step.graph_module)
    assert len(list(with_inner_graphs(executor.step.graph_module))) == 2


def test_loop_passes_its_inputs_by_value():
    def forward(module, x):
        x += 1

        def body(y):
            y += 1
            y += 1
            return y

        z = poptorch.for_loop(3, body, [x])[0]
        x += 1
        return z

    x = torch.ones(1, 5, dtype=torch.int32)
    assert torch.equal(run(forward, x), torch.full((1, 5), 8, dtype=torch.int32))
    assert torch.equal(x, torch.full((1, 5), 3, dtype=torch.int32))


def test_loop_over_constants_of_forward():
    def forward(module):
        t1, t2 = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])

        def body(x, y):
            x = x * 2
            return x, y * x

        return poptorch.for_loop(5, body, [t1, t2])[0]

    assert torch.equal(run(forward), torch.tensor([32.0, 64.0]))


def test_loop_that_returns_its_inputs_in_another_order():
    def forward(module, x, y):
        def body(a, b):
            a += 1
            return b, a

        return poptorch.for_loop(3, body, [x, y])

    x, y = run(forward, torch.zeros(2), torch.zeros(2))
    assert x.tolist() == [1, 1] and y.tolist() == [2, 2]


def test_every_run_of_a_loop_draws_other_random_numbers():
    def forward(module, x):
        return poptorch.for_loop(2, lambda mask, draw: (draw, torch.rand_like(draw)), [x, x])

    first, second = run(forward, torch.zeros(64))
    assert not torch.equal(first, second)
    again = run(forward, torch.zeros(64))
    assert torch.equal(first, again[0]) and torch.equal(second, again[1])  # the device's seed, not the host's generator


def test_loop_outside_an_ipu_runs_on_the_host():
    x = torch.ones(3)
    assert torch.equal(poptorch.for_loop(4, lambda a: a * 2, [x])[0], torch.full((3,), 16.0))


def test_loop_in_half_precision():
    def forward(module, x):
        return poptorch.for_loop(2, lambda a: torch.softmax(a @ a, -1), [x])[0]

    x = torch.randn(3, 3).half()
    expected = torch.softmax(torch.softmax(x.float() @ x.float(), -1) @ torch.softmax(x.float() @ x.float(), -1), -1)
    got = run(forward, x)
    assert got.dtype == torch.float16
    torch.testing.assert_close(got.float(), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (lambda x: x, r"\(Object is not list\)"),
        (lambda x: [x, 5], r"\(Object contained in list at index 1 is not torch.tensor\)"),
    ],
)
def test_loop_inputs_must_be_a_list_of_tensors(inputs, message):
    with pytest.raises(ValueError, match=message):
        run(lambda module, x: poptorch.for_loop(2, lambda *a: a, inputs(x)), torch.ones(1))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda a: (a, a), "1 inputs, but 2 outputs of the body"),
        (lambda a: a.int(), r"torch.float32 with shape \[2\], but the outputs of the body have torch.int32"),
        (lambda a: a.sum(), r"with shape \[2\], but the outputs of the body have torch.float32 with shape \[\]"),
        (lambda a: [a, 3][1:], "returns tensors, but what it returns at index 0 is a int"),
    ],
)
def test_loop_body_must_return_what_it_takes(body, message):
    with pytest.raises(poptorch.Error, match=message):
        run(lambda module, x: poptorch.for_loop(2, body, [x]), torch.ones(2))


def test_loop_in_training_is_refused():
    model = Forward(lambda module, x: poptorch.identity_loss(poptorch.for_loop(2, module.linear, [x])[0], "sum"))
    with pytest.raises(poptorch.Error, match=r"poptorch.for_loop\(\) is only supported in inference"):
        poptorch.trainingModel(model)(torch.ones(1, 4))


def test_tensor_that_leaves_a_body_is_refused():
    def forward(module, x):
        kept = []
        poptorch.for_loop(2, lambda a: kept.append(a * 2) or a, [x])
        return kept[0] + 1

    with pytest.raises(poptorch.Error, match="made in the body of a poptorch.for_loop or poptorch.cond without being returned"):
        run(forward, torch.ones(2))


def test_in_place_change_of_a_tensor_from_around_is_refused():
    with pytest.raises(poptorch.Error, match="changes in place a tensor from outside"):
        run(lambda module, x: poptorch.for_loop(2, lambda a: a + x.add_(1), [x])[0], torch.ones(2))


# cond


def choose(function, *tensors):
    """Results for a true and a false condition, which must be those of the module on the host."""
    results = []
    module = Forward(function)
    executor = poptorch.inferenceModel(module)
    for condition in (torch.tensor([True]), torch.tensor([False])):
        got, expected = executor(condition, *tensors), module(condition, *tensors)
        for a, b in zip(got, expected):
            torch.testing.assert_close(a, b.detach())
        results.append(got)
    return results


def test_cond_runs_the_body_that_the_condition_asks_for():
    def forward(module, condition, x, y):
        return poptorch.cond(condition, lambda a: (a + a) * 2, [x], lambda b: b, [y])

    x, y = torch.rand(1), torch.rand(1)
    then, otherwise = choose(forward, x, y)
    assert torch.equal(then[0], x * 4) and torch.equal(otherwise[0], y)


def test_cond_with_several_outputs_and_tensors_from_around():
    def forward(module, condition, x, y):
        return poptorch.cond(condition, lambda a: (a, x + y, y), [x], lambda b: (b * y, y, x - y), [y])

    choose(forward, torch.rand(3), torch.rand(3))


def test_cond_without_inputs():
    choose(lambda module, c, x, y: poptorch.cond(c, lambda: x * y, [], lambda: x, []), torch.rand(2), torch.rand(2))


def test_cond_on_constants_of_forward():
    def forward(module, condition):
        x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
        return poptorch.cond(condition, lambda a, b: a * 2 * b, [x, y], lambda a, b: b + a - 2, [x, y])

    choose(forward)


def test_nested_cond():
    def forward(module, condition, inner, x, y):
        def then():
            return poptorch.cond(inner, lambda a, b: a + b, [x, y], lambda: x - y, [])[0]

        def otherwise(flag):
            return poptorch.cond(torch.logical_not(flag), lambda b: x * b, [y], lambda: x * 2, [])[0]

        return poptorch.cond(condition, then, [], otherwise, [inner])

    for inner in (True, False):
        choose(forward, torch.tensor([inner]), torch.rand(2), torch.rand(2))


def test_cond_in_a_loop():
    def forward(module, condition, x):
        return poptorch.for_loop(3, lambda a: poptorch.cond(condition, lambda: a * x, [], lambda: a + x, [])[0], [x])

    choose(forward, torch.rand(2))


def test_cond_with_a_condition_that_the_step_computes():
    def forward(module, x):
        return poptorch.cond(x.sum() > 0, lambda: x * 2, [], lambda: -x, [])[0]

    assert run(forward, torch.tensor([1.0])).tolist() == [2.0]
    assert run(forward, torch.tensor([-1.0])).tolist() == [1.0]


def test_cond_passes_its_inputs_by_value():
    def forward(module, condition, x):
        return poptorch.cond(condition, lambda a: a.add_(1), [x], lambda a: a * 1, [x])[0]

    x = torch.zeros(2)
    assert run(forward, torch.tensor([True]), x).tolist() == [1, 1]
    assert x.tolist() == [0, 0]


@pytest.mark.parametrize("strategy", [poptorch.ShardedExecution, poptorch.SerialPhasedExecution, poptorch.ParallelPhasedExecution])
def test_cond_in_several_blocks(strategy):
    def forward(module, condition, x, y):
        with poptorch.Block("0", ipu_id=0):
            x, y = poptorch.cond(condition, lambda a, b: (a + b, b), [x, y], lambda a, b: (a, a * b), [x, y])
        with poptorch.Block("1", ipu_id=1):
            return poptorch.cond(~condition, lambda a, b: (a + b, b), [x, y], lambda a, b: (a, a * b), [x, y])

    options = poptorch.Options().setExecutionStrategy(strategy(poptorch.Stage("0"), poptorch.Stage("1")))
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    got = run(forward, torch.tensor([True]), x, y, options=options)
    assert torch.equal(got[0], x + y) and torch.equal(got[1], (x + y) * y)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (lambda c, x: (c, lambda a: a, x, lambda a: a, [x]), ValueError, r"then_inps tensors.*\(Object is not list\)"),
        (lambda c, x: (c, lambda a: a, [x], lambda: x, (x,)), ValueError, r"else_inps tensors.*\(Object is not list\)"),
        (lambda c, x: (c, lambda a: a, [x], lambda a: (a, a), [x]), poptorch.Error, "1 outputs of then_body, but 2 outputs of else_body"),
        (lambda c, x: (c, lambda a: a, [x], lambda a: a.sum(), [x]), poptorch.Error, "at index 0 the outputs of then_body have"),
        (lambda c, x: (x, lambda a: a, [x], lambda a: a, [x]), poptorch.Error, "a bool tensor of one element, given torch.float32"),
        (lambda c, x: (x > 0, lambda a: a, [x], lambda a: a, [x]), poptorch.Error, r"given torch.bool with shape \[2\]"),
    ],
)
def test_cond_says_what_is_wrong(arguments, error, message):
    with pytest.raises(error, match=message):
        run(lambda module, c, x: poptorch.cond(*arguments(c, x)), torch.tensor([True]), torch.ones(2))


def test_cond_in_training_is_refused():
    def forward(module, condition, x):
        return poptorch.identity_loss(poptorch.cond(condition, module.linear, [x], module.linear, [x])[0], "sum")

    with pytest.raises(poptorch.Error, match=r"poptorch.cond\(\) is only supported in inference"):
        poptorch.trainingModel(Forward(forward))(torch.tensor([True]), torch.ones(1, 4))
