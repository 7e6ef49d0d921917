"""A ring of slots in shared memory, each with room for the tensors of one item.

The memory has no name in any file system, only file descriptors: however the processes end, nothing is left behind.
"""

import mmap
import os
import tempfile
from typing import List, NamedTuple, Sequence, Tuple

import torch

from softipu.errors import Error

ALIGNMENT_BYTES = 64


class TensorSpec(NamedTuple):
    """Shape and type of one tensor of a slot."""

    shape: Tuple[int, ...]
    dtype: torch.dtype

    @property
    def n_bytes(self) -> int:
        """Size of the values."""
        n_elements = 1
        for length in self.shape:
            n_elements *= length
        return n_elements * torch.empty((), dtype=self.dtype).element_size()


class RingBuffer:
    """``n_slots`` slots of tensors that two processes see.

    Who writes and who reads a slot, and when, is up to the two processes.

    Attributes:
        slots: the tensors by slot; both processes have their own objects for the same memory.
    """

    def __init__(self, file_descriptor: int, specs: Sequence[TensorSpec], n_slots: int) -> None:
        """Look at memory that ``allocate`` made, here or in another process; the descriptor can be closed afterwards."""
        offsets, slot_bytes = _layout(specs)
        # Never closed by hand: the tensors keep the mapping alive, also those that the program still holds.
        memory = torch.frombuffer(mmap.mmap(file_descriptor, max(n_slots * slot_bytes, 1)), dtype=torch.uint8)
        self.slots: List[List[torch.Tensor]] = []
        for slot in range(n_slots):
            tensors = []
            for spec, offset in zip(specs, offsets):
                start = slot * slot_bytes + offset
                # A view of no bytes as another type is refused, so tensors without elements are their own.
                bytes_ = memory[start : start + spec.n_bytes]
                tensors.append(bytes_.view(spec.dtype).view(spec.shape) if spec.n_bytes else torch.empty(spec.shape, dtype=spec.dtype))
            self.slots.append(tensors)


def allocate(specs: Sequence[TensorSpec], n_slots: int) -> Tuple[RingBuffer, int]:
    """A ring in new shared memory, and the memory's file descriptor.

    Raises:
        Error: there is not enough memory.
    """
    n_bytes = max(n_slots * _layout(specs)[1], 1)
    file_descriptor = -1
    try:
        file_descriptor = _unnamed_file(n_bytes)
        return RingBuffer(file_descriptor, specs, n_slots), file_descriptor
    except (OSError, OverflowError) as error:
        if file_descriptor >= 0:
            os.close(file_descriptor)
        raise Error(
            f"No shared memory for {n_slots} buffers of {n_bytes / n_slots / 2**20:.3g} MiB each ({error}). "
            "Give AsynchronousDataAccessor a smaller buffer_size, use smaller batches, or DataLoaderMode.Sync."
        ) from error


def _unnamed_file(n_bytes: int) -> int:
    if hasattr(os, "memfd_create"):
        # Grows as it is written, as all memory of a process does, whatever the size of /dev/shm.
        file_descriptor = os.memfd_create("softipu-ring", os.MFD_CLOEXEC)
        os.ftruncate(file_descriptor, n_bytes)
        return file_descriptor
    with tempfile.TemporaryFile() as file:
        if hasattr(os, "posix_fallocate"):
            # Asked for now: room on the disk that is missing at the first write would end the process by a signal.
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        else:
            os.ftruncate(file.fileno(), n_bytes)
        return os.dup(file.fileno())


def _layout(specs: Sequence[TensorSpec]) -> Tuple[List[int], int]:
    """Offsets of the tensors in a slot, and the size of a slot, in bytes."""
    offsets, end = [], 0
    for spec in specs:
        offsets.append(end)
        end += -(-spec.n_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return offsets, end
