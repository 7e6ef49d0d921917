"""An exception on its way from the worker process to the program."""

import pickle
import traceback
from typing import NamedTuple


class WorkerTraceback(Exception):
    """Stands for the original traceback, as text: the cause of an exception that was raised in the worker process."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class WorkerException(Exception):
    """Stands for an exception of the worker process that could not be pickled."""


class Failure(NamedTuple):
    """What is known of an exception.

    Attributes:
        summary: its type and text in one line.
        trace: its traceback.
        pickled: the exception itself, or nothing when it cannot be pickled.
    """

    summary: str
    trace: str
    pickled: bytes

    def exception(self) -> BaseException:
        """The exception, with the worker's traceback as its cause."""
        try:
            exception = pickle.loads(self.pickled)
            assert isinstance(exception, BaseException)
        except Exception:  # noqa: BLE001  a class of exceptions can do anything when it is unpickled
            exception = WorkerException(self.summary)
        exception.__cause__ = WorkerTraceback(self.trace)
        return exception


def failure_of(exception: BaseException) -> Failure:
    """What another process needs to raise this exception."""
    lines = str(exception).strip().splitlines()
    # torch's own worker processes put the whole traceback into the text; its last line says what happened.
    line = "" if not lines else lines[-1] if "Original Traceback" in str(exception) else lines[0]
    name = type(exception).__name__
    summary = line if line.startswith(name) else f"{name}: {line}" if line else name
    trace = "".join(traceback.format_exception(type(exception), exception, exception.__traceback__))
    try:
        pickled = pickle.dumps(exception)
        pickle.loads(pickled)
    except Exception:  # noqa: BLE001  see above
        pickled = b""
    return Failure(summary, trace, pickled)
