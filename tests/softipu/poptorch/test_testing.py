"""testing.allclose compares structure and values."""

import pytest
import torch

from softipu.poptorch.testing import allclose

a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0])


@pytest.mark.parametrize("ref, other", [(a, a + 1e-9), ((a, [b, a]), (a.clone(), [b, a])), ([], [])])
def test_equal_structures_agree(ref, other):
    assert allclose(ref, other) is True


@pytest.mark.parametrize(
    "ref, other",
    [(a, a + 0.1), (a, b), (a, a.double()), (a, [a]), ((a,), [a]), ([a], (a,)), ([a, b], [a]), ([a], [a, b]), ((a, (b,)), (a, (b + 1,)))],
)
def test_differences_are_seen(ref, other):
    assert allclose(ref, other) is False


def test_other_kinds_are_refused():
    with pytest.raises(AssertionError, match="compares tensors, tuples and lists, given a dict"):
        allclose({"a": a}, {"a": a})
