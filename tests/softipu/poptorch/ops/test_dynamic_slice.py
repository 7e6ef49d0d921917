"""Slices whose start is a tensor."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from softipu import poptorch
from softipu.errors import Error
from softipu.poptorch.ops.dynamic_slice import dynamic_slice, dynamic_update

T = torch.arange(8.0)


@given(n_parts=st.integers(1, 4), size=st.integers(1, 4), step=st.integers(1, 3), start=st.integers(-20, 20), dim=st.integers(-3, 2))
def test_a_slice_has_the_elements_from_start_on_and_goes_on_at_the_beginning(n_parts, size, step, start, dim):
    shape = [2, 3, 4]
    shape[dim] = n_parts * size
    tensor = torch.rand(shape)
    positions = [(start + offset) % (n_parts * size) for offset in range(0, size, step)]
    expected = torch.stack([tensor.select(dim, position) for position in positions], dim)
    assert torch.equal(dynamic_slice(tensor, dim, torch.tensor([start]), size, step), expected)


@given(length=st.integers(1, 8), size=st.integers(1, 8), start=st.integers(-20, 20), dim=st.integers(-3, 2))
def test_an_update_replaces_the_elements_from_start_on(length, size, start, dim):
    size = min(size, length)
    shape, source_shape = [2, 3, 4], [2, 3, 4]
    shape[dim], source_shape[dim] = length, size
    tensor, source = torch.rand(shape), -torch.rand(source_shape)
    before = tensor.clone()
    updated = dynamic_update(tensor, source, dim, torch.tensor(start), size)
    for position in range(length):
        offset = (position - start) % length
        expected = source.select(dim, offset) if offset < size else tensor.select(dim, position)
        assert torch.equal(updated.select(dim, position), expected)
    assert torch.equal(tensor, before)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int16, torch.uint8])
def test_start_may_be_any_integer(dtype):
    assert dynamic_slice(T, 0, torch.tensor(6, dtype=dtype), 4, 1).tolist() == [6, 7, 0, 1]


def test_gradients_reach_what_was_sliced_and_written():
    tensor, source = torch.rand(4, requires_grad=True), torch.rand(2, requires_grad=True)
    dynamic_update(tensor, source, 0, torch.tensor([1]), 2).sum().backward()
    assert (tensor.grad.tolist(), source.grad.tolist()) == ([1, 0, 0, 1], [1, 1])
    tensor.grad = None
    dynamic_slice(tensor, 0, torch.tensor([3]), 2, 1).sum().backward()
    assert tensor.grad.tolist() == [1, 0, 0, 1]


def test_a_captured_slice_depends_on_the_start_of_each_call():
    traced = make_fx(lambda t, start: dynamic_slice(t, 0, start, 4, 2), tracing_mode="fake")(T, torch.tensor([0]))
    assert [traced(T, torch.tensor([start])).tolist() for start in (1, 5)] == [[1, 3], [5, 7]]
    traced = make_fx(lambda t, s, start: dynamic_update(t, s, 0, start, 2), tracing_mode="fake")(T, T[:2], torch.tensor([0]))
    assert traced(T, -T[1:3], torch.tensor([6])).tolist() == [0, 1, 2, 3, 4, 5, -1, -2]


START = torch.tensor([1])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([1.0], 0, START, 1, 1), r"dynamic_slice must take a torch.tensor input. <class 'list'> is not supported"),
        ((T, 0.0, START, 1, 1), r"Dimension must be an integer"),
        ((T, 1, START, 1, 1), r"Dimension 1 is out of range: dynamic_slice was given a tensor of 1 dimensions"),
        ((T, 0, 1, 1, 1), r"start argument to dynamic_slice must be a torch.tensor. <class 'int'> is not supported"),
        ((T, 0, torch.tensor([1, 2]), 1, 1), r"must be one integer, given torch.int64 of shape \[2\]"),
        ((T, 0, torch.tensor(1.0), 1, 1), r"must be one integer, given torch.float32"),
        ((T, 0, START, 1.0, 1), r"Size must be an integer"),
        ((T, 0, START, 0, 1), r"The start and end of a slice must be different"),
        ((T, 0, START, -2, 1), r"with the end less than the start is not supported"),
        ((T, 0, START, 7, 1), r"The size of the slice \(7\) must be a factor of the slicing dimension \(8\)\."),
        ((T, 0, START, 4, None), r"Step must be an integer"),
        ((T, 0, START, 4, 0), r"Step must be 1 or more"),
    ],
)
def test_slices_that_are_not_possible_are_refused(arguments, message):
    with pytest.raises(Error, match=message):
        dynamic_slice(*arguments)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([1.0], T, 0, START, 1), r"dynamic_update must take a torch.tensor input"),
        ((T, [1.0], 0, START, 1), r"Src argument to dynamic_update must be a torch.tensor. <class 'list'> is not supported"),
        ((torch.zeros(2, 8), T, 0, START, 1), r"input and src tensors must have same dimensionality. \(2\) vs \(1\)"),
        ((T, torch.tensor([-1], dtype=torch.int32), 0, START, 1), r"must have same dtype\. \(torch\.float32 vs torch.int32\)"),
        ((T, T[:3], 0, START, 2), r"cannot write src of shape \[3\] into 2 of the 8 elements .* must have the shape \[2\]"),
        ((T, torch.zeros(9), 0, START, 9), r"size must not exceed the dimension"),
        ((T, T, 0, START, 0), r"The start and end of a slice must be different"),
        ((T, T, 0, START, -2), r"with the end less than the start is not supported"),
    ],
)
def test_updates_that_are_not_possible_are_refused(arguments, message):
    with pytest.raises(Error, match=message):
        dynamic_update(*arguments)


def test_a_refusal_in_a_model_names_the_types_of_the_device():
    class Writes(nn.Module):
        def forward(self, tensor, source):
            return dynamic_update(tensor, source, 0, torch.tensor([1]), 1)

    with pytest.raises(Error, match=r"must have same dtype\. \(torch\.float32 vs torch.int32\)"):
        poptorch.inferenceModel(Writes())(T, torch.tensor([-1]))
