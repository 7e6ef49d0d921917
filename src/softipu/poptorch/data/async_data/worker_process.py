"""The worker process as the program sees it: started, watched, stopped, and never left behind."""

import multiprocessing.connection
import multiprocessing.reduction
import multiprocessing.util
import os
import pickle
import signal
import tempfile
from typing import Any, Tuple

import torch
import torch.multiprocessing

from softipu.errors import Error, first_line
from softipu.poptorch.data.async_data import worker
from softipu.poptorch.data.async_data.generator_pickling import make_generators_picklable, pickled_to
from softipu.poptorch.enums import SharingStrategy

START_METHODS = {
    SharingStrategy.Fork: "fork",
    SharingStrategy.ForkServer: "forkserver",
    # A new interpreter; tensors of the dataset are moved into shared memory.
    SharingStrategy.SharedMemory: "spawn",
    # A new interpreter; the dataset comes as an unnamed file.
    SharingStrategy.FileSystem: "spawn",
}

CHECK_SECONDS = 1.0
"""How often a waiting program looks whether the worker is still there."""

GRACE_SECONDS = 1.0
"""How long a worker that is asked to stop may take; it answers between two items."""

TERMINATION_SECONDS = 4.0
"""How long it may take after SIGTERM, which reaches it also inside the dataset's code, to end its own worker processes."""


class WorkerProcess:
    """A running worker.

    Attributes:
        process_id: of the worker.
        is_forked: the worker is a copy of the program; otherwise a new interpreter, which imports the program's main module.
        stop: ends the worker; called once, at the latest when this object is collected or the interpreter exits.

    Raises:
        Error: the dataset cannot be handed over, or this system has no such way to start a process.
    """

    def __init__(self, job: worker.Job, sharing_strategy: SharingStrategy) -> None:
        method = START_METHODS[sharing_strategy]
        if method not in torch.multiprocessing.get_all_start_methods() or os.name != "posix":
            raise Error(
                f"SharingStrategy.{sharing_strategy.name} starts a process by {method!r}, which this system does not have, "
                "or it cannot share unnamed memory with one. Use DataLoaderMode.Sync."
            )
        context = torch.multiprocessing.get_context(method)
        make_generators_picklable()
        self._connection, workers_end = context.Pipe(duplex=True)
        self.is_forked = is_forked = method == "fork"
        sends_file = sharing_strategy is SharingStrategy.FileSystem
        with tempfile.TemporaryFile() as file:
            if sends_file:
                _hand_over(lambda: pickled_to(file, job.dataset), sharing_strategy)
            self._process = context.Process(  # type: ignore[attr-defined]
                target=worker.run,
                args=(workers_end, job._replace(dataset=None) if sends_file else job, self._connection if is_forked else None),
                name="AsynchronousDataAccessor",
            )
            _hand_over(self._process.start, sharing_strategy)
            # Only the worker may hold its end, so that this one sees the connection end with it.
            workers_end.close()
            self.process_id: int = self._process.pid
            # Runs when this object is collected and when the interpreter exits, but not in a forked copy of the program.
            self.stop = multiprocessing.util.Finalize(self, _stop, args=(self._process, self._connection), exitpriority=100)
            if sends_file:
                self._send_file(file.fileno())

    def send(self, *message: Any) -> None:
        """Tell the worker something; one that has ended is found out when it is asked for a message."""
        try:
            self._connection.send(message)
        except OSError:
            return

    def receive(self) -> Tuple[Any, ...]:
        """The worker's next message.

        Raises:
            EOFError: the worker has ended.
        """
        while not self._connection.poll():
            # Looked at now and then: processes that a killed worker leaves for a moment keep both of these from waking us up.
            has_ended = self._process.exitcode is not None
            # A worker that has said something and then ended: what it said comes first.
            if has_ended and not self._connection.poll():
                raise EOFError
            multiprocessing.connection.wait([self._connection, self._process.sentinel], CHECK_SECONDS)
        try:
            return self._connection.recv()
        except OSError:
            raise EOFError from None

    def receive_file_descriptor(self) -> int:
        """A file descriptor that follows a message."""
        return multiprocessing.reduction.recv_handle(self._connection)

    def how_it_ended(self) -> str:
        """Why the process is no more, for a message."""
        self._process.join(GRACE_SECONDS)
        code = self._process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            hint = ", often the sign of a machine that ran out of memory" if name == "SIGKILL" else ""
            return f"process {self.process_id} was ended by {name}{hint}"
        return f"process {self.process_id} ended with exit code {code}"

    def _send_file(self, file_descriptor: int) -> None:
        os.lseek(file_descriptor, 0, os.SEEK_SET)
        try:
            multiprocessing.reduction.send_handle(self._connection, file_descriptor, self.process_id)
        except OSError:
            return  # the worker has ended: the first message that is waited for tells why


def _hand_over(action: Any, sharing_strategy: SharingStrategy) -> None:
    try:
        action()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise Error(
            f"The dataset cannot be handed to the worker process by SharingStrategy.{sharing_strategy.name}, because it "
            f"(or its collate_fn, sampler or worker_init_fn) cannot be pickled: {first_line(error)}. Define its classes and functions "
            "at the top level of a module, or use SharingStrategy.Fork, which needs no pickling."
        ) from error


def _stop(process: Any, connection: Any) -> None:
    if process.exitcode is None:
        try:
            connection.send((worker.STOP,))
        except OSError:
            process.join(GRACE_SECONDS)  # the worker is just ending
        process.join(GRACE_SECONDS)
    if process.exitcode is None:
        process.terminate()
        process.join(TERMINATION_SECONDS)
    if process.exitcode is None:
        process.kill()
    process.join()
    connection.close()
