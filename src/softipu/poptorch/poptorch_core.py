"""What programs reach of PopTorch's compiled module: its errors, and the check of options before a compilation."""

from typing import Any, Dict

from softipu.errors import Error, RecoverableError, UnrecoverableError
from softipu.poptorch.device import isRunningOnIpu
from softipu.poptorch.log import logger
from softipu.poptorch.not_here import refusing
from softipu.poptorch.options import session_options, stored_names

__all__ = ["Error", "RecoverableError", "UnrecoverableError", "isCompilingWithDispatcher"]

__getattr__ = refusing("poptorch_core")


def isCompilingWithDispatcher() -> bool:
    """Whether a module's forward is being captured."""
    return isRunningOnIpu()


def _validateOptions(options: Dict[str, Any]) -> None:
    """Logs and checks what ``Options.toDict`` returns, as a compilation does.

    Raises:
        Error: an option that PopART does not have, or a value of a type that it does not take.
    """
    for line in session_options.settings(options):
        logger.debug("%s", line)
    known = stored_names()
    session_options.check({name: value for name, value in options.items() if name not in known})
