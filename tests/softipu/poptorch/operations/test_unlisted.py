"""Operations that PopTorch does not list run, with one warning that names them and the user's lines."""

import inspect

import pytest
import torch
from torch import nn

from softipu import poptorch
from softipu.capture.listed_ops import unlisted_ops
from tests.softipu.poptorch.operations.documented import DOCUMENTED
from tests.softipu.poptorch.operations.test_documented import Step, others
from tests.softipu.small_models import MODELS


def warnings_of(caplog):
    return [r.getMessage() for r in caplog.records if "not supported by PopTorch on an IPU" in r.getMessage()]


class Unlisted(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(3))

    def forward(self, x):
        y = torch.linalg.inv(self.weight) @ x
        for _ in range(3):
            y = torch.special.bessel_j0(y)
        return poptorch.identity_loss(y.relu(), "sum")


def test_warning_names_ops_and_lines_once(caplog):
    executor = poptorch.inferenceModel(Unlisted())
    executor(torch.ones(3, 3))
    executor(torch.ones(3, 3))
    (text,) = warnings_of(caplog)
    _, first = inspect.getsourcelines(Unlisted.forward)
    assert text.startswith("2 operations in this model are not supported by PopTorch on an IPU")
    lines = text.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["linalg_inv_ex", "special_bessel_j0"]
    assert lines[0].endswith(f"{__file__}:{first + 1}: y = torch.linalg.inv(self.weight) @ x")
    assert f"{__file__}:{first + 3}: y = torch.special.bessel_j0(y)" in lines[1]


def test_result_is_that_of_eager_torch():
    torch.testing.assert_close(poptorch.inferenceModel(Unlisted())(torch.ones(3, 3)), Unlisted()(torch.ones(3, 3)).detach())


def test_bodies_of_loops_are_looked_into(caplog):
    class Looping(nn.Module):
        def forward(self, x):
            return poptorch.for_loop(2, lambda a: torch.special.bessel_j0(a), [x])[0]

    poptorch.inferenceModel(Looping())(torch.ones(2))
    assert "1 operation in this model is not supported" in warnings_of(caplog)[0]


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_documented_operations_give_no_warning(name, caplog):
    poptorch.inferenceModel(Step(DOCUMENTED[name])).compile(*others(DOCUMENTED[name]))
    assert warnings_of(caplog) == []


@pytest.mark.parametrize("kind", MODELS)
def test_common_models_give_no_warning_for_training(kind, caplog):
    model = kind()
    executor = poptorch.trainingModel(model)
    executor.compile(*kind.batch(2, torch.Generator()))
    assert warnings_of(caplog) == [] and unlisted_ops(executor.step.graph_module) == []
