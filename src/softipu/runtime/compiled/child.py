"""Work in a process of its own, so that what it imports and allocates goes away with it."""

import os
import select
import signal
import sys
import threading
import warnings
from typing import Callable

import torch

from softipu.errors import first_line

_MOST_SECONDS = 1800.0  # a lock that another thread held when the process was forked would never be free
_MOST_BYTES = 60000  # of a message: it fits into the pipe, so that the child never waits for its parent


class ChildFailed(Exception):
    """The work raised, or the process ended; the message is that of the error."""


class ChildHangs(ChildFailed):
    """The process did not end in time."""


def can_fork() -> bool:
    """Whether a process may be forked here: macOS and Windows do not let it."""
    return hasattr(os, "fork") and sys.platform.startswith("linux") and threading.current_thread() is threading.main_thread()


def in_child(work: Callable[[], None], most_seconds: float = _MOST_SECONDS) -> None:
    """Runs ``work`` in a forked process, on one thread, and waits for it. Only what it writes to disk remains.

    Raises:
        ChildFailed: the work raised, or the process ended before it was done.
        ChildHangs: nothing came of it for ``most_seconds``.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of other threads; the child uses none of theirs
        child = os.fork()
    if child == 0:
        _work_and_exit(work, writer)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as answers:
            if not select.select([answers], [], [], most_seconds)[0]:
                raise ChildHangs(f"the process that compiles said nothing for {most_seconds:g} s")
            answer = answers.read()
        _, status = os.waitpid(child, 0)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    if answer != b"done":
        raise ChildFailed(answer.decode(errors="replace") or f"the process that compiles ended with status {status}")


def _work_and_exit(work: Callable[[], None], writer: int) -> None:
    status = 1
    try:
        torch.set_num_threads(1)  # the threads of the parent are not here
        work()
        answer, status = b"done", 0
    except BaseException as error:  # noqa: BLE001 - told to the parent
        answer = f"{type(error).__name__}: {first_line(error)}".encode()[:_MOST_BYTES]
    try:
        os.write(writer, answer)
    finally:
        os._exit(status)  # nothing of the parent's is flushed, ended or removed
