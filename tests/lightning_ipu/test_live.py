"""Numbers that stand in for batch_idx and the like while a step is captured."""

import math

import pytest
import torch

from lightning_ipu.host_value import HostValue
from lightning_ipu.live import Needs, evaluated, is_live, live
from lightning_ipu.structure import take_apart


class Recorded:
    """A live number, and the inputs that it asked for."""

    def __init__(self, value):
        self.inputs = []
        self.needs = Needs({"n": value}, self._as_tensor)
        self.number = live(self.needs, "n", "n")

    def _as_tensor(self, expression, value):
        self.inputs.append(expression)
        return torch.tensor(value)

    @property
    def answers(self):
        return [guard.answer for guard in self.needs.guards]


@pytest.fixture
def three():
    return Recorded(3)


def test_it_claims_to_be_the_number_it_stands_for(three):
    assert isinstance(three.number, int)
    assert not isinstance(three.number, float)
    assert is_live(three.number)
    assert not is_live(3)


def test_arithmetic_is_done_anew_for_every_value(three):
    made = (2 * three.number + 1) ** 2 - abs(-three.number) % 2 + (three.number // 2) / 4 - round(three.number) + math.floor(three.number)
    assert is_live(made)
    expected = {n: (2 * n + 1) ** 2 - abs(-n) % 2 + (n // 2) / 4 for n in (3, 4, 10)}
    assert {n: evaluated(made, {"n": n}) for n in expected} == expected
    assert three.answers == []


def test_comparisons_are_guards(three):
    assert three.number > 2
    assert not three.number == 4
    assert (three.number % 2 == 0) is False
    assert three.answers == [True, False, False]
    assert [guard.ask({"n": 4}) for guard in three.needs.guards] == [True, True, True]


@pytest.mark.parametrize(
    "use",
    [lambda n: list(range(n)), lambda n: [1, 2, 3, 4][n], int, lambda n: math.sqrt(n), lambda n: {3: "x"}[n], lambda n: torch.zeros(n)],
)
def test_whoever_needs_the_value_gets_it_guarded(use, three):
    assert use(three.number) is not None
    assert 3 in three.answers


def test_a_truth_value_guards_only_whether_it_is_zero(three):
    assert three.number
    assert three.answers == [True]
    assert three.needs.guards[0].ask({"n": 99}) is True


def test_guards_name_the_number_and_the_users_line(three):
    if three.number > 1:
        (guard,) = three.needs.guards
    assert guard.names == ("n",)
    assert guard.place.file == __file__


def test_with_a_tensor_it_is_an_input(three):
    x = torch.ones(2)
    for made in (x * three.number, three.number * x, x + three.number, three.number - x, x / three.number, x**three.number):
        assert isinstance(made, torch.Tensor)
    assert len(three.inputs) == 6
    assert three.answers == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_a_scalar_tensor_keeps_its_dtype_next_to_it(three, dtype):
    assert (torch.ones((), dtype=dtype) * three.number).dtype == (torch.ones((), dtype=dtype) * 3).dtype


def test_a_float_makes_whole_tensors_floating_as_python_numbers_do():
    half = Recorded(0.5)
    assert (torch.ones(2, dtype=torch.int64) * half.number).dtype == torch.float32


def test_text_is_noted_and_not_guarded(three):
    assert f"step {three.number}" == "step 3"
    assert str(three.number) == "3"
    assert three.answers == []
    assert len(three.needs.texts) == 2


def test_a_batch_value_reports_when_the_step_looks_at_it():
    looked_at = []
    name = HostValue(2, "a.png", looked_at.append)
    leaves, _ = take_apart({"name": name})
    assert isinstance(name, str)
    assert leaves[0] is name
    assert looked_at == []
    assert name.endswith(".png")
    assert name == "a.png"
    assert len(name) == 5
    assert looked_at == [2, 2, 2]
