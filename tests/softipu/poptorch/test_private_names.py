"""Names of PopTorch's private modules: those that mean something here are there, the others are refused by name."""

import pytest
import torch
from torch import nn

from softipu import poptorch
from softipu.poptorch import _impl, _logging, _utils, poptorch_core


def test_private_modules_have_the_public_classes_and_the_logger():
    assert _impl.PoplarExecutor is poptorch.PoplarExecutor
    assert _logging.logger is poptorch.logger
    assert _logging.setLogLevel is poptorch.setLogLevel


def test_the_capture_of_a_forward_is_known_by_three_names():
    seen = []

    class Looks(nn.Module):
        def forward(self, x):
            seen.append((_impl.isDispatchTracing(), _impl.isRunningOnIpu(), poptorch_core.isCompilingWithDispatcher()))
            return x + 1

    module = Looks()
    poptorch.inferenceModel(module)(torch.ones(1))
    module(torch.ones(1))
    assert seen == [(True, True, True), (False, False, False)]


def test_a_failed_capture_is_over():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    with pytest.raises(ValueError, match="^no$"):
        poptorch.inferenceModel(Fails())(torch.ones(1))
    assert not poptorch_core.isCompilingWithDispatcher()


def test_unwrapping_gives_the_module():
    module = nn.Linear(2, 2)
    assert _impl.unwrapIfWrapped(module) is module
    assert _impl.unwrapIfWrapped(poptorch.inferenceModel(module)) is module


def test_an_executor_around_a_module_and_its_optimizer_trains():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return poptorch.identity_loss(self.w * x, reduction="sum")

    module = Net()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    executor = _impl.PoplarExecutor(
        model=_impl.OptimizerWrapper(module, optimizer), options=None, training=True, optimizer=optimizer, user_model=module
    )
    executor(torch.ones(1))
    assert module.w.item() == -0.5


@pytest.mark.parametrize("level", ["TRACE", "DEBUG", "INFO", "WARN", "ERR", "OFF"])
def test_levels_of_popart_are_taken(level):
    assert _logging.setPopartLogLevel(level) is None


@pytest.mark.parametrize("level", [0, "FOO", None])
def test_other_levels_of_popart_are_refused(level):
    with pytest.raises(ValueError, match=f"Level must be one of TRACE, DEBUG, INFO, WARN, ERR, OFF; given {level!r}"):
        _logging.setPopartLogLevel(level)


@pytest.mark.parametrize("module", [_impl, _logging, _utils, poptorch_core])
def test_what_only_the_compiler_has_is_refused_by_name(module):
    last = module.__name__.rsplit(".", 1)[-1]
    with pytest.raises(AttributeError, match=rf"poptorch\.{last}\.someCompilerName: the software IPU has no such name"):
        module.someCompilerName  # noqa: B018


def test_there_is_no_popart_graph():
    executor = poptorch.inferenceModel(nn.Linear(2, 2))
    executor(torch.ones(1, 2))
    with pytest.raises(poptorch.Error, match="_debugGetPopartIR: the software IPU compiles no PopART graph"):
        executor._debugGetPopartIR()
