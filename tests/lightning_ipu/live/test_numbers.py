"""Numbers that stand in for batch_idx and the like while a step is captured."""

import builtins
import math

import numpy as np
import pytest
import torch

from lightning_ipu.live import names as live_names
from lightning_ipu.live import torch_functions as live_torch
from lightning_ipu.live.numbers import Needs, applied, evaluated, is_live, live, user_place
from lightning_ipu.live.recapture import Recapture
from lightning_ipu.structures.host_value import HostValue
from lightning_ipu.structures.structure import take_apart


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
    [lambda n: list(range(n)), lambda n: [1, 2, 3, 4][n], lambda n: {3: "x"}[n], lambda n: torch.zeros(n), lambda n: "ab" * n],
)
def test_whoever_needs_the_value_gets_it_guarded(use, three):
    assert use(three.number) is not None
    assert 3 in three.answers


@pytest.mark.parametrize("use", [lambda n: int(n), lambda n: float(n), lambda n: math.sqrt(n)], ids=["int", "float", "sqrt"])
def test_whoever_makes_it_a_plain_number_is_run_again_with_names_that_take_it(use, three):
    with pytest.raises(Recapture) as asked:
        use(three.number)
    with live_names.replaced(asked.value.live, applied, is_live, three.needs.fix_texts):
        result = use(three.number)
        assert isinstance(1.5, float) and isinstance(1, int) and not isinstance("1", (float, int))
        assert (float("1.5"), int("7", 8), math.exp(0.0), float.fromhex("0x1p1")) == (1.5, 7, 1.0, 2.0)
        assert {builtins.float: "found"}[float] == "found"
        assert np.zeros(2, dtype=float).dtype == np.float64
    assert is_live(result) and three.answers == []
    assert evaluated(result, {"n": 16}) == use(16)
    assert float is builtins.float and math.sqrt(4) == 2.0 and "int" not in globals()


def test_a_number_made_of_text_fixes_what_is_in_the_text(three):
    with pytest.raises(Recapture) as asked:
        int(three.number)
    with live_names.replaced(asked.value.live, applied, is_live, three.needs.fix_texts):
        assert float(f"{three.number}.5") == 3.5
    assert three.answers == [3]


def test_functions_of_numpy_give_live_numbers(three):
    results = [np.exp(-three.number), np.float64(2.0) * three.number, np.clip(three.number, 0, 5), np.interp(three.number, [0, 10], [0, 1])]
    assert all(is_live(result) for result in results) and three.answers == []
    assert [evaluated(result, {"n": 8}) for result in results] == pytest.approx([math.exp(-8), 16.0, 5, 0.8])


@pytest.mark.parametrize(
    ("use", "value"),
    [
        (lambda n: torch.add(torch.ones(2), torch.ones(2), alpha=n), [5.0, 5.0]),
        (lambda n: torch.ones(2).sub(torch.ones(2), alpha=n), [-3.0, -3.0]),
        (lambda n: torch.full_like(torch.ones(2), n), [4.0, 4.0]),
        (lambda n: torch.full((2,), fill_value=n), [4, 4]),
        (lambda n: torch.ones(1).new_full((2,), n), [4.0, 4.0]),
        (lambda n: torch.ones(2).new_tensor(n), 4.0),
    ],
)
def test_functions_of_torch_that_take_numbers_take_it_as_an_input(use, value):
    four = Recorded(4)
    with live_torch.taking_live(is_live):
        result = use(four.number)
    plain = use(4)
    assert result.tolist() == value == plain.tolist() and result.dtype == plain.dtype
    assert len(four.inputs) == 1
    assert all(type(answer) is bool for answer in four.answers)


def test_an_index_is_an_input_unless_it_is_out_of_range(three):
    assert float(live_torch.item(torch.tensor([0.0, 1.0, 2.0, 5.0]), three.number)) == 5.0
    assert len(three.inputs) == 1 and three.answers == [True]
    assert live_torch.item(torch.arange(3.0), three.number) is NotImplemented  # torch has an error for it


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
    with live_names.replaced([live_names.Scope(globals())], applied, is_live, three.needs.fix_texts):
        assert f"step {three.number}" == "step 3"
        assert int("12") == 12
    assert str(three.number) == "3"
    assert three.answers == []
    assert len(three.needs.texts) == 2


def test_a_number_in_a_name_that_is_made_where_it_is_used_is_guarded(three):
    with live_names.replaced([live_names.Scope(globals())], applied, is_live, three.needs.fix_texts):
        three.needs.fix_name("top_3", user_place())
        assert three.answers == []
        three.needs.fix_name(f"loss_{three.number}", user_place())
    assert three.answers == [3]


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


@pytest.mark.parametrize("file", ["train.py", "/home/me/train.py", "<ipython-input-3-0a1b>", "<stdin>"])
def test_a_script_is_the_users_whatever_way_python_names_it(file):
    names = {"user_place": user_place}
    exec(compile("\n\nplace = user_place()", file, "exec"), names)
    assert str(names["place"]) == f"{file}:3"


def test_generated_code_is_nobodys_place():
    names = {"user_place": user_place}
    exec(compile("place = user_place()", "<string>", "exec"), names)
    assert "test_numbers.py" in str(names["place"])
