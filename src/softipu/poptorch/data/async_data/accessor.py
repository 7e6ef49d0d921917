"""``poptorch.AsynchronousDataAccessor``: a dataset that another process iterates over, ahead of the program."""

import pickle
from typing import Any, Iterable, NoReturn, Optional, Tuple

import torch

from softipu.errors import Error
from softipu.poptorch.data.async_data import worker
from softipu.poptorch.data.async_data.failure import Failure
from softipu.poptorch.data.async_data.item_structure import ItemStructure
from softipu.poptorch.data.async_data.ring_buffer import RingBuffer
from softipu.poptorch.data.async_data.worker_process import WorkerProcess
from softipu.poptorch.enums import SharingStrategy
from softipu.poptorch.inputs.custom_parser import find_parser

FAILED_TO_START = "AsynchronousDataAccessor worker thread failed to start (Check above for details)"


class AsynchronousDataAccessor:
    """Iterates over a dataset in another process, which fills a ring of buffers in shared memory.

    An item is valid until the next one is taken: its buffer is filled again. Clone what is kept longer.

    The worker starts, and loads the first item, when the accessor is made. It ends with ``terminate()``, with the accessor, or with
    the program. Iterating again after a complete pass starts the dataset anew; so does iterating again after leaving a loop early.

    Args:
        dataset: any iterable; its items are one tensor, a flat list or tuple of tensors, a dictionary of tensors, or of a registered
            type. All have the same shapes, unless they are rebatched.
        buffer_size: number of items the ring has room for.
        miss_sleep_time_in_ms: kept for programs that pass it; the worker does not poll, it is woken up.
        load_indefinitely: begin with the next pass over the dataset while the program still works on this one.
        early_preload: fill the ring at once; otherwise the worker loads one item and waits for the program's first iterator.
        sharing_strategy: how the worker gets the dataset.
        rebatched_size: cut and join the items, which are batches themselves, to batches of this many rows. An incomplete batch at the
            end is dropped, unless the dataset is a ``poptorch.DataLoader`` with ``drop_last=False``.

    Raises:
        Error: the worker failed to start or the dataset is empty, with what the dataset raised as the cause; the same while iterating.
        AssertionError: an argument is out of range.
    """

    def __init__(
        self,
        dataset: Iterable[Any],
        buffer_size: int = 3,
        miss_sleep_time_in_ms: float = 0.1,
        load_indefinitely: bool = True,
        early_preload: bool = False,
        sharing_strategy: SharingStrategy = SharingStrategy.ForkServer,
        rebatched_size: Optional[int] = None,
    ) -> None:
        self._worker: Optional[WorkerProcess] = None
        assert isinstance(buffer_size, int) and buffer_size > 0, f"buffer_size is {buffer_size!r}; it must be a positive number of items."
        assert miss_sleep_time_in_ms >= 0, f"miss_sleep_time_in_ms is {miss_sleep_time_in_ms!r}; it cannot be negative."
        assert rebatched_size is None or rebatched_size > 1, f"rebatched_size is {rebatched_size!r}; it must be None or greater than 1."
        strategy = SharingStrategy(sharing_strategy)
        drop_last = _drops_last(dataset, rebatched_size)
        self.rebatched_size = rebatched_size
        self._dataset = dataset
        self._drop_last = drop_last
        # The epoch that this iterator reads, what was read of it, and the slot that the program looks at.
        self._epoch = 0
        self._is_begun = self._is_used = self._is_over = False
        self._slot: Optional[int] = None

        job = worker.Job(
            dataset=dataset._for_worker() if hasattr(dataset, "_for_worker") else dataset,
            n_slots=buffer_size,
            load_indefinitely=load_indefinitely,
            early_preload=early_preload,
            batch_rows=rebatched_size,
            drop_last=drop_last,
            seed=_seed_for(dataset),
        )
        process = WorkerProcess(job, strategy)
        try:
            self._structure, self._ring = _first_message(process, buffer_size)
        except BaseException:  # an interrupt included: no worker without an accessor
            process.stop()
            raise
        self._worker = process

    def terminate(self) -> None:
        """End the worker; the accessor cannot be iterated afterwards."""
        process, self._worker = self._worker, None
        if process is not None:
            process.stop()

    def __enter__(self) -> "AsynchronousDataAccessor":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.terminate()

    def __len__(self) -> int:
        """Number of items of one pass.

        Raises:
            TypeError: the dataset has no length, or items of unknown numbers of rows are rebatched.
        """
        n_items = len(self._dataset)  # type: ignore[arg-type]
        if self.rebatched_size is None:
            return n_items
        rows = getattr(self._dataset, "batch_size", None)
        if rows is None:
            raise TypeError(
                f"The number of batches of {self.rebatched_size} rows is unknown, because the dataset of type "
                f"{type(self._dataset).__name__} does not tell how many rows its items have (batch_size)."
            )
        n_rows = n_items * rows
        return n_rows // self.rebatched_size if self._drop_last else -(-n_rows // self.rebatched_size)

    def __iter__(self) -> "AsynchronousDataAccessor":
        process = self._running()
        if self._is_used or self._is_over:
            self._epoch += 1
            self._is_used = self._is_over = self._is_begun = False
        self._begin(process)
        self._release(process)
        return self

    def __next__(self) -> Any:
        process = self._running()
        self._release(process)
        if self._is_over:
            raise StopIteration
        self._begin(process)
        while True:
            try:
                message = process.receive()
            except EOFError:
                self._fail(f"The worker of the AsynchronousDataAccessor is gone: {process.how_it_ended()}.")
            if message[0] == worker.ITEM:
                slot, n_rows, epoch = message[1:]
                if epoch == self._epoch:
                    return self._item(slot, n_rows)
                # Left over from a pass that was given up.
                process.send(worker.RELEASE, slot)
            elif message[0] == worker.END and message[1] == self._epoch:
                self._is_over = True
                raise StopIteration
            elif message[0] == worker.FAILED:
                failure: Failure = message[1]
                self._fail(f"The dataset raised {failure.summary} in the worker of the AsynchronousDataAccessor.", failure.exception())

    def _item(self, slot: int, n_rows: Optional[int]) -> Any:
        self._slot = slot
        self._is_used = True
        tensors = self._ring.slots[slot]
        # New objects each time: what the program does to one (a gradient, say) does not stay with the buffer.
        views = [tensor.detach() if n_rows is None else tensor.narrow(0, 0, n_rows) for tensor in tensors]
        return self._structure.item_of(views)

    def _begin(self, process: WorkerProcess) -> None:
        if not self._is_begun:
            process.send(worker.BEGIN, self._epoch)
            self._is_begun = True

    def _release(self, process: WorkerProcess) -> None:
        if self._slot is not None:
            process.send(worker.RELEASE, self._slot)
            self._slot = None

    def _running(self) -> WorkerProcess:
        if self._worker is None:
            raise Error("The AsynchronousDataAccessor was terminated, or its worker has failed. Make a new one to iterate again.")
        return self._worker

    def _fail(self, message: str, cause: Optional[BaseException] = None) -> NoReturn:
        self.terminate()
        raise Error(message) from cause


def _first_message(process: WorkerProcess, n_slots: int) -> Tuple[ItemStructure, RingBuffer]:
    try:
        message = process.receive()
    except EOFError:
        advice = (
            ""
            if process.is_forked
            else (
                " The worker imports the program's main module, which must do its work under `if __name__ == '__main__':`; "
                "SharingStrategy.Fork does without."
            )
        )
        raise Error(f"{FAILED_TO_START}: {process.how_it_ended()} before the first item.{advice}") from None
    if message[0] == worker.FAILED:
        raise Error(f"{FAILED_TO_START}: {message[1].summary}") from message[1].exception()
    structure: ItemStructure = pickle.loads(message[1])
    with open(process.receive_file_descriptor(), "rb+") as memory:
        ring = RingBuffer(memory.fileno(), message[2], n_slots)
    return structure._replace(parser=find_parser(structure.item_type)), ring


def _drops_last(dataset: Iterable[Any], rebatched_size: Optional[int]) -> bool:
    """Whether an incomplete last batch is dropped; only a poptorch.DataLoader has a say in it."""
    if getattr(dataset, "_accessor", None) is not None:
        raise Error(
            "The DataLoader already has an AsynchronousDataAccessor of its own. Iterate over the DataLoader, "
            "or make it with mode=poptorch.DataLoaderMode.Sync."
        )
    drop_last: bool = getattr(dataset, "_drops_incomplete_batches", True)
    combined = getattr(dataset, "combinedBatchSize", None)
    assert drop_last or rebatched_size is not None or combined in (None, 1), (
        f"The DataLoader has drop_last=False and batches of {combined} rows, so its last batch may be shorter than the shared buffers. "
        "The 'drop_last=False' option only works with 'rebatched_size' (DataLoaderMode.AsyncRebatched)."
    )
    return drop_last


def _seed_for(dataset: Iterable[Any]) -> int:
    """Seed of the worker: from the dataset's generator when it has one, otherwise drawn as torch draws those of its own workers."""
    generator = getattr(dataset, "generator", None)
    if isinstance(generator, torch.Generator):
        return generator.initial_seed()
    return int(torch.empty((), dtype=torch.int64).random_().item())
