"""The exception tree of the software IPU.

    Error                        PopTorch's public error: a misuse found while wrapping, compiling or running
    |- RecoverableError          the device can be reset and the program started again
    |- UnrecoverableError        the device is lost to this process
    |- CaptureError              the step does something that an IPU cannot do; names the user's file and line
    |- InputMismatchError        inputs differ from those that the step was compiled for
    |- UnknownOpError            an op without a rule; names it and says where to add one
    `- DoesNotFitError           the step needs more memory than the IPU has

Options and batching checks raise AssertionError, as PopTorch's do.
"""

from typing import Optional


class Error(Exception):
    """A misuse of the API.

    Attributes:
        message: what was given, what is allowed and what to do.
        type: name of the error's kind, as PopTorch prints it.
        location: ``file:line`` of the user's code, or an empty string.
    """

    def __init__(self, message: str, *, type: str = "poptorch_py_error", location: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.type = type
        self.location = location

    def __str__(self) -> str:
        where = f" (at {self.location})" if self.location and self.location not in self.message else ""
        return f"'{self.type}': {self.message}{where}"


class RecoverableError(Error):
    """The device needs ``recovery_action`` (IPU_RESET, LINK_RESET, PARTITION_RESET or FULL_RESET) and a new start."""

    def __init__(self, message: str, recovery_action: str = "IPU_RESET", *, location: str = "") -> None:
        super().__init__(message, type="poptorch_recoverable_error", location=location)
        self.recovery_action = recovery_action


class UnrecoverableError(Error):
    """The device cannot be used by this process any more."""


class CaptureError(Error):
    """The step does something that an IPU cannot do; ``location`` is the user's own file and line."""


class InputMismatchError(Error):
    """Inputs of a call differ from those that the step was compiled for."""


class UnknownOpError(Error):
    """An op without a rule."""


class DoesNotFitError(Error):
    """The step needs more memory than an IPU has."""


def first_line(error: Optional[BaseException]) -> str:
    """First line of an error's text, for messages that quote another error."""
    return str(error).strip().splitlines()[0] if error is not None and str(error).strip() else type(error).__name__
