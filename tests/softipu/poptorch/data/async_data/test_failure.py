"""Exceptions that cross from the worker to the program."""

import pytest

from softipu.poptorch.data.async_data.failure import WorkerException, WorkerTraceback, failure_of


def _caught(error):
    try:
        raise error
    except Exception as caught:
        return caught


class Odd(Exception):
    """Cannot be unpickled: its class wants two arguments and keeps one."""

    def __init__(self, what, why):
        super().__init__(f"{what}, {why}")


def test_the_exception_keeps_its_type_and_shows_the_workers_traceback():
    failure = failure_of(_caught(KeyError("cat")))
    assert failure.summary == "KeyError: 'cat'"
    exception = failure.exception()
    assert type(exception) is KeyError and exception.args == ("cat",)
    assert isinstance(exception.__cause__, WorkerTraceback)
    assert "in _caught" in str(exception.__cause__)


def test_an_exception_that_cannot_be_pickled_is_told_as_text():
    exception = failure_of(_caught(Odd("disk", "full"))).exception()
    assert type(exception) is WorkerException and str(exception) == "Odd: disk, full"


@pytest.mark.parametrize(
    "error, summary",
    [
        (ValueError(), "ValueError"),
        (ValueError("one\ntwo"), "ValueError: one"),
        (KeyError("Caught KeyError in worker 0.\nOriginal Traceback:\n  File x\nKeyError: 'cat'"), "KeyError: 'cat'"),
    ],
)
def test_the_summary_is_one_line(error, summary):
    # str(KeyError) is the repr of its argument; torch's wrapper of it shows the text instead.
    if isinstance(error, KeyError):
        error = type("KeyError", (KeyError,), {"__str__": lambda self: self.args[0]})(*error.args)
    assert failure_of(_caught(error)).summary == summary
