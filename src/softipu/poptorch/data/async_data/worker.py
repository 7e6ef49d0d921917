"""What the worker process does: it iterates over the dataset and fills the slots of the ring.

Messages of the worker, each a tuple that starts with its kind:

    (READY, structure, specs)        after the first item; the structure is pickled; the ring's file descriptor follows
    (ITEM, slot, n_rows, epoch)      a slot is filled; n_rows None: whole tensors
    (END, epoch)                     an iterator over the dataset has ended
    (FAILED, failure)                an exception; the worker ends

Messages of the program:

    (RELEASE, slot)                  the slot can be filled again
    (BEGIN, epoch)                   wants this epoch from its start; an earlier one is given up
    (STOP,)

An epoch is one iterator over the dataset. Items carry their epoch, so those of an abandoned one are told apart without waiting
for an answer, however far ahead the worker is.
"""

import multiprocessing
import multiprocessing.reduction
import os
import pickle
import random
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Sized

import torch

from softipu.poptorch.data.async_data import rebatching
from softipu.poptorch.data.async_data.failure import failure_of
from softipu.poptorch.data.async_data.item_structure import ItemStructure, structure_of
from softipu.poptorch.data.async_data.ring_buffer import RingBuffer, TensorSpec, allocate
from softipu.poptorch.log import logger

READY, ITEM, END, FAILED = "ready", "item", "end", "failed"
RELEASE, BEGIN, STOP = "release", "begin", "stop"

PARENT_CHECK_SECONDS = 2.0
"""How often a waiting worker looks whether its program is still there (normally the end of the connection tells it at once)."""


class Job(NamedTuple):
    """What the worker is to do.

    Attributes:
        dataset: any iterable; None when it comes as a file descriptor of its pickled form.
        n_slots: slots of the ring.
        load_indefinitely: start the next iterator over the dataset when one has ended, without being asked.
        early_preload: fill the ring before the program asks for the first item.
        batch_rows: rows of a batch when items are to be cut and joined, otherwise None.
        drop_last: whether an incomplete batch at the end of an epoch is dropped.
        seed: for the random number generators of the process.
    """

    dataset: Optional[Iterable[Any]]
    n_slots: int
    load_indefinitely: bool
    early_preload: bool
    batch_rows: Optional[int]
    drop_last: bool
    seed: int


class _Stopped(Exception):
    """The program wants the worker to end, or is gone."""


def run(connection: Connection, job: Job, programs_end: Optional[Connection]) -> None:
    """Entry point of the worker process.

    Args:
        connection: to the program.
        job: what to do.
        programs_end: the other end when the process inherited it; it is closed, or the end of the program would not be noticed.
    """
    if programs_end is not None:
        programs_end.close()
    # A forked process would wake up the event loop of its program.
    signal.set_wakeup_fd(-1)
    # An interrupt from the keyboard goes to the program as well, which decides what becomes of its worker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    # As in torch's own workers; after a fork OpenMP's threads would be missing.
    torch.set_num_threads(1)
    _seed_generators(job.seed)
    logger.debug("AsynchronousDataAccessor worker process: %d", os.getpid())
    worker = _Worker(connection, job)
    try:
        worker.work()
    except (_Stopped, BrokenPipeError, EOFError, ConnectionResetError):
        return
    except Exception as error:  # noqa: BLE001  the program raises it
        if not worker.is_ready:
            # The program's message points here.
            traceback.print_exc(file=sys.stderr)
            sys.stderr.flush()
        try:
            connection.send((FAILED, failure_of(error)))
        except OSError:
            return  # nobody is left to be told
    finally:
        connection.close()


class _Worker:
    def __init__(self, connection: Connection, job: Job) -> None:
        self.is_ready = False
        self._connection = connection
        self._job = job
        self._parent_id = os.getppid()
        self._free_slots = list(range(job.n_slots))
        self._wanted_epoch = 0 if job.early_preload else -1
        self._ring: Optional[RingBuffer] = None
        self._structure: Optional[ItemStructure] = None
        self._specs: List[TensorSpec] = []

    def work(self) -> None:
        """Load epoch after epoch until told to stop."""
        dataset = self._dataset()
        epoch = 0
        try:
            while True:
                self._load(dataset, epoch)
                epoch += 1
                # Never more than one epoch ahead: a dataset that gives nothing the second time would be asked for ever.
                self._wait_until_wanted(epoch - 1 if self._job.load_indefinitely else epoch)
        finally:
            _end_workers_of(dataset)

    def _load(self, dataset: Iterable[Any], epoch: int) -> None:
        slot = -1
        is_empty = True
        for piece in self._pieces(dataset):
            is_empty = False
            if piece.first_row == 0:
                slot = self._free_slot(epoch)
                if slot < 0:
                    return
            self._write(piece, slot)
            if piece.is_last:
                self._connection.send((ITEM, slot, None if piece.n_rows is None else piece.first_row + piece.n_rows, epoch))
                slot = -1
            if self._wanted_epoch < 0:
                self._wait_until_wanted(0)
            if self._is_abandoned(epoch):
                break
        else:
            if is_empty and not self.is_ready:
                raise ValueError("The dataset is empty: its iterator gave no item.")
            self._connection.send((END, epoch))
        if slot >= 0:
            self._free_slots.append(slot)

    def _pieces(self, dataset: Iterable[Any]) -> Iterator[rebatching.Piece]:
        tensors = (self._tensors_of(item) for item in _iterator_over(dataset))
        if self._job.batch_rows is None:
            return rebatching.whole(tensors)
        return rebatching.rebatched(tensors, self._job.batch_rows, drop_last=self._job.drop_last)

    def _tensors_of(self, item: Any) -> List[torch.Tensor]:
        if self._structure is None:
            self._structure = structure_of(item)
        return self._structure.tensors_of(item)

    def _write(self, piece: rebatching.Piece, slot: int) -> None:
        if self._ring is None:
            self._make_ring(piece.tensors)
        assert self._ring is not None
        for index, (source, spec, target) in enumerate(zip(piece.tensors, self._specs, self._ring.slots[slot])):
            needed = spec.shape if piece.n_rows is None else spec.shape[1:]
            given = tuple(source.shape if piece.n_rows is None else source.shape[1:])
            # copy_ would broadcast and convert without a word.
            if given != needed or source.dtype != spec.dtype:
                raise ValueError(
                    f"Tensor {index} of an item is {source.dtype} of shape {list(source.shape)}, but that of the first item was "
                    f"{spec.dtype} of shape {list(spec.shape)}, and all items share the same buffers. Pad them to one shape, "
                    "drop an incomplete last batch (drop_last=True), or use DataLoaderMode.Sync."
                )
            if piece.n_rows is not None:
                target = target[piece.first_row : piece.first_row + piece.n_rows]
            target.copy_(source.detach())

    def _make_ring(self, tensors: Sequence[torch.Tensor]) -> None:
        rows = self._job.batch_rows
        for tensor in tensors:
            shape = tuple(tensor.shape)
            self._specs.append(TensorSpec(shape if rows is None else (rows,) + shape[1:], tensor.dtype))
        self._ring, file_descriptor = allocate(self._specs, self._job.n_slots)
        assert self._structure is not None
        # Pickled here: the connection's own pickler would move tensors of a registered type's first item into shared memory.
        self._connection.send((READY, pickle.dumps(self._structure._replace(parser=None)), self._specs))
        multiprocessing.reduction.send_handle(self._connection, file_descriptor, _parent_process_id())
        os.close(file_descriptor)
        self.is_ready = True

    def _free_slot(self, epoch: int) -> int:
        """A slot that can be written, or -1 when the epoch is no longer wanted."""
        self._take_messages()
        while not self._free_slots and not self._is_abandoned(epoch):
            self._wait_for_message()
        return -1 if self._is_abandoned(epoch) else self._free_slots.pop(0)

    def _is_abandoned(self, epoch: int) -> bool:
        return self._wanted_epoch > epoch

    def _wait_until_wanted(self, epoch: int) -> None:
        while self._wanted_epoch < epoch:
            self._wait_for_message()

    def _wait_for_message(self) -> None:
        while not self._connection.poll(PARENT_CHECK_SECONDS):
            parent = multiprocessing.parent_process()
            if os.getppid() != self._parent_id or (parent is not None and not parent.is_alive()):
                raise _Stopped
        self._take_messages()

    def _take_messages(self) -> None:
        while self._connection.poll():
            message = self._connection.recv()
            if message[0] == RELEASE:
                self._free_slots.append(message[1])
            elif message[0] == BEGIN:
                self._wanted_epoch = max(self._wanted_epoch, message[1])
            else:
                raise _Stopped

    def _dataset(self) -> Iterable[Any]:
        if self._job.dataset is not None:
            return self._job.dataset
        with open(multiprocessing.reduction.recv_handle(self._connection), "rb") as file:
            return pickle.load(file)


def _iterator_over(dataset: Iterable[Any]) -> Iterator[Any]:
    """Items of a dataset, also of one that only has a length and takes indices, which Python would index until it raises IndexError."""
    if not hasattr(dataset, "__iter__") and isinstance(dataset, Sized):
        return (dataset[index] for index in range(len(dataset)))  # type: ignore[index]
    return iter(dataset)


def _end_workers_of(dataset: Iterable[Any]) -> None:
    """Lets the persistent workers of a torch DataLoader end by themselves.

    The end of this process would end them by a signal, which may come while one has made a file in shared memory and not yet
    taken its name away: then the file stays.
    """
    end = getattr(getattr(dataset, "_iterator", None), "_shutdown_workers", None)
    if end is not None:
        end()


def _seed_generators(seed: int) -> None:
    # As torch's own workers do, so that a dataset which draws numbers gives the same for the same torch.manual_seed.
    random.seed(seed)
    torch.manual_seed(seed)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(seed % 2**32)


def _parent_process_id() -> Optional[int]:
    parent = multiprocessing.parent_process()
    return None if parent is None else parent.pid


def _leave(signal_number: int, frame: Optional[FrameType]) -> None:
    # An exception instead of the default, so that the worker takes its own worker processes with it.
    raise SystemExit(128 + signal_number)
