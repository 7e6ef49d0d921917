"""Whose PopTorch runs the steps: the Poplar SDK's, or the software IPU's; and why. The only file that knows there are two.

The SDK's is taken where it can be imported and there is something for it to drive: an IPU, or the SDK's own IPU Model asked for with
POPTORCH_IPU_MODEL=1. LIGHTNING_IPU_BACKEND=software|sdk overrides that.
"""

import contextlib
import functools
import importlib
import importlib.util
import logging
import os
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Iterator, Optional

VARIABLE = "LIGHTNING_IPU_BACKEND"
ALLOWED = ("software", "sdk")
ENGINES = ("auto", "interpreter", "compiled")

_log = logging.getLogger("lightning_ipu")


@dataclass(frozen=True)
class Backend:
    """A choice and its reason.

    Attributes:
        name: ``software`` or ``sdk``.
        reason: why, in words that fit after a colon.
    """

    name: str
    reason: str

    @property
    def description(self) -> str:
        """What runs the steps, in words."""
        return "the software IPU" if self.name == "software" else "the Poplar SDK"


def sdk_location() -> Optional[str]:
    """Where the SDK's poptorch stands, or None; imports nothing."""
    present = sys.modules.get("poptorch")
    if present is not None:
        return None if present.__name__ != "poptorch" else str(getattr(present, "__file__", "poptorch"))
    spec = importlib.util.find_spec("poptorch")
    if spec is None or spec.origin is None or os.path.dirname(spec.origin) == os.path.join(stand_in_folder(), "poptorch"):
        return None
    return spec.origin


def stand_in_folder() -> str:
    """The folder to put on Python's path so that ``import poptorch`` means the software IPU's."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand_in")


def choose() -> Backend:
    """The backend for this process; the SDK is imported only where it is there.

    Raises:
        ValueError: LIGHTNING_IPU_BACKEND has another value than ``software`` or ``sdk``.
        ImportError: LIGHTNING_IPU_BACKEND=sdk where the SDK's poptorch cannot be imported.
    """
    wanted = os.environ.get(VARIABLE, "").strip().lower()
    if wanted and wanted not in ALLOWED:
        raise ValueError(f"{VARIABLE}={wanted!r} is not known. Allowed: {' or '.join(ALLOWED)}; unset it to let lightning-ipu choose.")
    if wanted == "software":
        return Backend("software", f"{VARIABLE}=software")
    location = sdk_location()
    if location is None:
        if wanted == "sdk":
            raise ImportError(
                f"{VARIABLE}=sdk, but no Poplar SDK was found: `import poptorch` fails in {sys.executable}. Enable the SDK first."
            )
        return Backend("software", "no Poplar SDK found")
    try:
        poptorch = importlib.import_module("poptorch")
    except ImportError as error:
        if wanted == "sdk":
            raise
        return Backend("software", f"the Poplar SDK at {location} could not be imported ({error})")
    if wanted == "sdk":
        return Backend("sdk", f"{VARIABLE}=sdk")
    if poptorch.ipuHardwareIsAvailable():
        return Backend("sdk", "an IPU is attached")
    if os.environ.get("POPTORCH_IPU_MODEL", "0") not in ("", "0"):
        return Backend("sdk", "POPTORCH_IPU_MODEL is set")
    return Backend("software", "the Poplar SDK is here, but no IPU is attached")


def hardware_is_attached() -> bool:
    """Whether an IPU is attached that the Poplar SDK could drive. Where there is no SDK nothing is imported."""
    if os.environ.get(VARIABLE, "").strip().lower() == "software" or sdk_location() is None:
        return False
    try:
        return bool(importlib.import_module("poptorch").ipuHardwareIsAvailable())
    except Exception as error:  # noqa: BLE001  whoever asks does not want IPUs, so an SDK that fails is nothing to stop for
        _log.debug("lightning-ipu: asking the Poplar SDK for IPUs failed: %s: %s", type(error).__name__, error)
        return False


@functools.lru_cache(maxsize=None)
def poptorch() -> ModuleType:
    """PopTorch of the chosen backend; the choice holds for the process, and its reason is logged once."""
    backend = choose()
    module = importlib.import_module("softipu.poptorch" if backend.name == "software" else "poptorch")
    _say(f"lightning-ipu: running on {backend.description}: {backend.reason}")
    return module


@contextlib.contextmanager
def engine(name: str, n_calls: Optional[int]) -> Iterator[None]:
    """Models made inside run on this engine of the software IPU; an IPU has none to choose, which is logged once.

    Args:
        name: one of ENGINES.
        n_calls: calls that each of them will get, where that is known; ``auto`` goes by it.
    """
    if poptorch().__name__ != "softipu.poptorch":
        _say_unused(name)
        yield
        return
    from softipu.poptorch.executor import engine_choice

    with engine_choice.using(name, n_calls):
        yield


@functools.lru_cache(maxsize=None)
def _say_unused(name: str) -> None:
    if name != "auto":
        _say(f"lightning-ipu: IPUStrategy(engine={name!r}) is for the software IPU, and has no effect: the Poplar SDK runs the steps.")


def _say(message: str) -> None:
    # Users see it without setting logging up, as they see Lightning's own lines about devices.
    if not _log.handlers and not logging.getLogger().handlers:
        _log.addHandler(logging.StreamHandler())
        _log.propagate = False
    if _log.level == logging.NOTSET:
        _log.setLevel(logging.INFO)
    _log.info(message)
