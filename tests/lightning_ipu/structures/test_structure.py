"""Batches and outputs taken apart and put together."""

import collections
import dataclasses

import pytest
import torch

from lightning_ipu.structures.structure import first_rows, joined, mapped, paths, put_together, take_apart

Pair = collections.namedtuple("Pair", "x y")


@dataclasses.dataclass(frozen=True)
class Sample:
    x: torch.Tensor
    name: str
    extra: object = None


class Odd(dict):
    """A mapping that is made with arguments nobody else knows."""

    def __init__(self, secret):
        super().__init__()
        self.secret = secret


def odd():
    made = Odd(7)
    made.update(b=torch.ones(2), a=None)
    return made


VALUES = [
    torch.ones(3),
    [torch.ones(2), (torch.zeros(1), 3)],
    {"x": torch.ones(2), "rest": {"y": torch.zeros(2), "none": None}},
    Pair(torch.ones(2), [1.5]),
    Sample(torch.ones(2), "a"),
    collections.OrderedDict(b=torch.ones(1), a="word"),
    collections.defaultdict(list, x=[torch.ones(1)]),
    collections.UserDict(x=torch.ones(1)),
    odd(),
    None,
    (),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_is_put_together_is_what_was_taken_apart(value):
    leaves, form = take_apart(value)
    again = put_together(form, leaves)
    assert type(again) is type(value)
    assert take_apart(again) == (leaves, form)
    assert not any(leaf is None for leaf in leaves)


def test_other_attributes_of_a_mapping_are_kept():
    assert mapped(lambda leaf: leaf, odd()).secret == 7
    again = mapped(lambda leaf: leaf, collections.defaultdict(list, x=[1]))
    assert again["new"] == []


def test_lists_of_words_are_one_leaf():
    leaves, _ = take_apart({"names": ["a", "b"], "x": 1})
    assert leaves == [["a", "b"], 1]
    assert take_apart(["a", "b"])[1] == take_apart(["c"])[1]


def test_forms_tell_none_from_a_value():
    assert take_apart({"x": None})[1] != take_apart({"x": 1})[1]


def test_paths_are_as_python_writes_them():
    assert paths(take_apart(({"x": 1, "y": [2]}, 3))[1]) == ["[0]['x']", "[0]['y'][0]", "[1]"]


def test_joined_batches_have_their_rows_one_after_another():
    batches = [{"x": torch.full((2, 1), float(i)), "n": torch.tensor(i), "name": "a"} for i in range(3)]
    whole = joined(batches)
    assert whole["x"].flatten().tolist() == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
    assert int(whole["n"]) == 0
    assert whole["name"] == "a"


def test_batches_of_different_make_up_cannot_be_joined():
    with pytest.raises(ValueError, match="must be built alike"):
        joined([{"x": torch.ones(1)}, {"y": torch.ones(1)}])


def test_rows_are_those_of_the_first_tensor_that_has_any():
    assert first_rows({"scalar": torch.tensor(1.0), "x": torch.ones(5, 2)}) == 5
    assert first_rows({"scalar": torch.tensor(1.0)}) is None
