"""Structures come back as they were, with other tensors."""

import collections
import dataclasses
from typing import Any, NamedTuple

import pytest
import torch

from softipu.poptorch.inputs.custom_parser import ICustomArgParser, registerCustomArgParser
from softipu.poptorch.inputs.structure import flatten, unflatten


class Pair(NamedTuple):
    left: Any
    right: Any


class Output(collections.OrderedDict):
    def __init__(self, label):
        super().__init__()
        self.label = label


class Rows(list):
    pass


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: torch.Tensor
    scale: float = 1.0


@dataclasses.dataclass
class ModelOutput(collections.OrderedDict):
    """A dict that is a dataclass too, as transformers' outputs are."""

    loss: Any = None
    logits: Any = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)


def doubled(value):
    tensors, spec = flatten(value)
    return unflatten(spec, [tensor * 2 for tensor in tensors])


a, b, c = torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0])


def test_a_tensor_is_its_own_structure():
    assert torch.equal(doubled(a), a * 2)


def test_nested_lists_tuples_and_dicts_keep_types_and_constants():
    result = doubled([a, (b, 3, None), {"z": c, "text": "same"}])
    assert type(result) is list and type(result[1]) is tuple and type(result[2]) is dict
    assert torch.equal(result[0], a * 2) and torch.equal(result[1][0], b * 2) and torch.equal(result[2]["z"], c * 2)
    assert result[1][1:] == (3, None) and result[2]["text"] == "same"


def test_empty_structures_stay():
    for value in ([], (), {}, None, [[], ()]):
        assert doubled(value) == value


def test_named_tuple_keeps_its_fields():
    result = doubled(Pair(a, Pair(b, 5)))
    assert type(result) is Pair and torch.equal(result.left, a * 2) and type(result.right) is Pair and result.right.right == 5


def test_torch_return_types_come_back_as_tuples_with_names():
    given = torch.tensor([[1.0, 3.0]]).max(dim=1)
    result = doubled(given)
    assert type(result) is type(given) and result.values.item() == 6.0 and result.indices.item() == 2


def test_list_subclass_is_kept():
    assert type(doubled(Rows([a, b]))) is Rows


def test_dict_subclass_keeps_type_order_and_attributes():
    out = Output("kept")
    out["sum"], out["a"] = a, b
    result = doubled(out)
    assert type(result) is Output and list(result) == ["sum", "a"] and result.label == "kept"
    assert torch.equal(result["sum"], a * 2) and torch.equal(result["a"], b * 2)
    assert list(out) == ["sum", "a"] and torch.equal(out["sum"], a)  # the original is left alone


def test_default_dict_keeps_its_factory():
    value = collections.defaultdict(list, x=a)
    assert doubled(value)["new"] == []


def test_user_dict_is_a_structure():
    value = collections.UserDict(x=a)
    result = doubled(value)
    assert type(result) is collections.UserDict and torch.equal(result["x"], a * 2) and torch.equal(value["x"], a)


def test_dict_that_is_a_dataclass_keeps_items_and_attributes():
    result = doubled(ModelOutput(logits=a))
    assert type(result) is ModelOutput and list(result) == ["logits"] and result.loss is None
    assert torch.equal(result.logits, a * 2) and torch.equal(result["logits"], a * 2)


def test_frozen_dataclass_with_tensors_is_a_structure():
    result = doubled(Frozen(a, scale=0.5))
    assert type(result) is Frozen and torch.equal(result.x, a * 2) and result.scale == 0.5


def test_dataclass_without_tensors_is_a_constant():
    @dataclasses.dataclass
    class Config:
        width: int = 3

    config = Config()
    assert doubled([config])[0] is config
    assert flatten(Config(3))[1] == flatten(Config(3))[1] != flatten(Config(4))[1]


def test_tensors_of_a_dict_do_not_depend_on_the_order_of_keys():
    first, first_spec = flatten({"x": a, "y": b})
    second, second_spec = flatten({"y": b, "x": a})
    assert first_spec == second_spec
    assert all(left is right for left, right in zip(first, second))
    assert list(unflatten(second_spec, second)) == ["y", "x"]


def test_keys_of_several_kinds_can_be_ordered():
    result = doubled({1: a, "one": b, None: c})
    assert torch.equal(result[1], a * 2) and torch.equal(result["one"], b * 2) and torch.equal(result[None], c * 2)


def test_specs_differ_with_structure_and_constants_but_not_with_shapes():
    spec = flatten((a, 1))[1]
    assert spec == flatten((torch.zeros(7), 1))[1]
    for other in ([a, 1], (a, 2), (a, 1, 1), (a, a), (a, True), Pair(a, 1)):
        assert spec != flatten(other)[1], other


def test_array_constants_compare_by_elements():
    numpy = pytest.importorskip("numpy")
    assert flatten([numpy.ones(3)])[1] == flatten([numpy.ones(3)])[1]
    assert flatten([numpy.ones(3)])[1] != flatten([numpy.zeros(3)])[1]
    assert flatten([numpy.ones(3)])[1] != flatten([numpy.ones(1)])[1]


def test_not_a_number_equals_itself():
    assert flatten([float("nan")])[1] == flatten([float("nan")])[1] != flatten([0.0])[1]


def test_wrong_number_of_tensors_is_an_error():
    _, spec = flatten((a, b))
    with pytest.raises(ValueError, match="has 2 tensors, given 1"):
        unflatten(spec, [a])


class Batch:
    def __init__(self, data, label):
        self.data, self.label = data, label


class GreedyParser(ICustomArgParser):
    def yieldTensors(self, struct):
        yield struct.data
        yield struct.label

    def reconstruct(self, original_structure, tensor_iterator):
        return type(original_structure)(*tensor_iterator)


@pytest.fixture
def batch_parser():
    registerCustomArgParser(Batch, GreedyParser())
    yield
    registerCustomArgParser(Batch, None)


def test_registered_class_is_a_structure_inside_others(batch_parser):
    result = doubled([Batch(a, b), c])
    assert type(result[0]) is Batch and torch.equal(result[0].label, b * 2) and torch.equal(result[1], c * 2)


def test_unregistered_class_is_a_constant():
    batch = Batch(a, b)
    tensors, spec = flatten([batch])
    assert tensors == [] and unflatten(spec, [])[0] is batch
