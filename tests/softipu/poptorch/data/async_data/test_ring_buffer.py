"""Slots of tensors in shared memory without a name."""

import os

import pytest
import torch

from softipu.errors import Error
from softipu.poptorch.data.async_data.ring_buffer import RingBuffer, TensorSpec, allocate

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


@pytest.fixture
def make_ring():
    opened = []

    def make(specs, n_slots):
        ring, file_descriptor = allocate(specs, n_slots)
        opened.append(file_descriptor)
        return ring, file_descriptor

    yield make
    for file_descriptor in opened:
        os.close(file_descriptor)


@pytest.mark.parametrize("dtype", DTYPES + [torch.bool, torch.complex64], ids=str)
def test_two_views_of_a_ring_share_their_values(make_ring, dtype):
    specs = [TensorSpec((3, 5), dtype), TensorSpec((7,), torch.uint8)]
    writer, file_descriptor = make_ring(specs, 2)
    reader = RingBuffer(file_descriptor, specs, 2)
    value = torch.arange(15).view(3, 5).to(dtype)

    writer.slots[1][0].copy_(value)
    writer.slots[1][1].fill_(255)

    assert torch.equal(reader.slots[1][0], value)
    assert torch.equal(reader.slots[0][0], torch.zeros_like(value))


def test_no_two_tensors_of_a_ring_overlap(make_ring):
    ring, _ = make_ring([TensorSpec((3,), torch.int8), TensorSpec((), torch.float64), TensorSpec((2, 2), torch.float16)], 4)
    everything = [tensor for slot in ring.slots for tensor in slot]
    for number, tensor in enumerate(everything):
        tensor.fill_(number)
    assert all((tensor == number).all() for number, tensor in enumerate(everything))


def test_tensors_without_elements_and_without_dimensions(make_ring):
    ring, _ = make_ring([TensorSpec((0, 4), torch.float32), TensorSpec((), torch.int32)], 1)
    assert [tensor.shape for tensor in ring.slots[0]] == [(0, 4), ()]
    ring.slots[0][1].fill_(3)
    assert int(ring.slots[0][1]) == 3


def test_values_outlive_the_ring_and_its_descriptor():
    ring, file_descriptor = allocate([TensorSpec((1000,), torch.float32)], 2)
    tensor = ring.slots[0][0]
    del ring
    os.close(file_descriptor)
    tensor.fill_(1.0)
    assert float(tensor.sum()) == 1000


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="the system shows shared memory elsewhere")
def test_shared_memory_has_no_name(make_ring):
    before = set(os.listdir("/dev/shm"))
    make_ring([TensorSpec((1000,), torch.float32)], 2)
    assert set(os.listdir("/dev/shm")) <= before


def test_too_much_memory_is_an_error_that_names_the_need():
    # More than the addresses of a process, so nothing is ever taken from the machine.
    with pytest.raises(Error, match=r"No shared memory for 2 buffers of 1\.07e\+09 MiB each .* smaller buffer_size"):
        allocate([TensorSpec((2**50,), torch.uint8)], 2)
