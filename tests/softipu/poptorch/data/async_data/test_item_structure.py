"""What an item is apart from its tensors."""

import collections
import pickle

import pytest
import torch

from softipu.poptorch.data.async_data.item_structure import structure_of
from softipu.poptorch.inputs.custom_parser import ICustomArgParser, registerCustomArgParser

Pair = collections.namedtuple("Pair", ["left", "right"])
A, B = torch.zeros(2), torch.ones(3)


@pytest.mark.parametrize("item", [A, [A, B], (A, B), {"a": A, "b": B}, Pair(A, B)], ids=lambda item: type(item).__name__)
def test_an_item_is_put_together_as_it_was(item):
    structure = structure_of(item)
    tensors = structure.tensors_of(item)
    again = structure.item_of(tensors)
    assert type(again) is type(item)
    assert structure_of(again) == structure
    assert all(old is new for old, new in zip(structure.tensors_of(again), tensors))


def test_a_mapping_comes_back_as_a_dictionary_in_the_first_items_order():
    structure = structure_of(collections.OrderedDict(x=A, y=B))
    assert structure.item_of([A, B]) == {"x": A, "y": B}
    assert structure.tensors_of(collections.OrderedDict(y=B, x=A)) == [A, B]


class Sentence:
    def __init__(self, words, length):
        self.words, self.length = words, length


class SentenceParser(ICustomArgParser):
    def yieldTensors(self, struct):
        yield struct.words

    def reconstruct(self, original_structure, tensor_iterator):
        return Sentence(next(tensor_iterator), original_structure.length)


def test_a_registered_type_uses_its_parser():
    registerCustomArgParser(Sentence, SentenceParser())
    try:
        structure = structure_of(Sentence(A, 7))
        again = structure.item_of([B])
    finally:
        registerCustomArgParser(Sentence, None)
    assert (again.words, again.length) == (B, 7)


def test_a_type_that_is_not_registered_is_refused():
    with pytest.raises(AssertionError, match="of type Sentence.*registered with poptorch.registerCustomArgParser"):
        structure_of(Sentence(A, 7))


def test_a_structure_is_small_when_pickled():
    assert len(pickle.dumps(structure_of({"x": torch.zeros(1000, 1000)}))) < 1000


@pytest.mark.parametrize(
    "item, message",
    [
        ([A, 3], r"an object of type int at index 1, which is not a torch tensor"),
        ({"x": "text"}, r"an object of type str under the key 'x'"),
        ([A, [B]], r"an object of type list at index 1"),
        (3.0, r"is of type float"),
        ((), r"holds no tensor"),
        ([A.to_sparse()], r"layout torch.sparse_coo.* at index 0; only dense tensors"),
    ],
)
def test_what_is_no_flat_container_of_tensors_is_refused(item, message):
    with pytest.raises(AssertionError, match=message):
        structure_of(item)


@pytest.mark.parametrize(
    "first, later, message",
    [
        ([A], (A,), "is of type tuple, the first one was of type list"),
        ({"x": A}, {"y": A}, r"has the keys \['y'\], the first one had \['x'\]"),
        ([A, B], [A], "has 1 tensors, the first one had 2"),
    ],
)
def test_items_must_be_alike(first, later, message):
    with pytest.raises(AssertionError, match=message):
        structure_of(first).tensors_of(later)
