"""Without a C++ compiler the interpreter runs, and a warning says why."""

import logging

import pytest
import torch

from softipu import poptorch
from softipu.poptorch.executor import engine_choice
from softipu.runtime import CannotCompile
from softipu.runtime.compiled.compiler import find_compiler


def test_a_compiler_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(CannotCompile, match=r"no C\+\+ compiler was found \(tried CXX=no-such-compiler\). Install one"):
        find_compiler()


def test_no_compiler_at_all(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CannotCompile, match=r"tried g\+\+ and clang\+\+"):
        find_compiler()


def test_the_interpreter_runs_in_its_place(monkeypatch, caplog):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr(engine_choice, "_said", set())
    monkeypatch.setattr(logging.getLogger("softipu"), "propagate", True)
    model, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    with engine_choice.using("compiled"), caplog.at_level(logging.WARNING, "softipu"):
        executor = poptorch.inferenceModel(model)
        torch.testing.assert_close(executor(x), model(x), rtol=1e-5, atol=1e-6)
    (message,) = [r.getMessage() for r in caplog.records]
    assert message.startswith("softipu: running on the interpreter, not on the engine 'compiled': no C++ compiler was found")
