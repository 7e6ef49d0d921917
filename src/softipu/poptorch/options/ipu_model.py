"""Which device options and environment ask for: hardware, the IPU Model, or an offline target."""

import os
from typing import TYPE_CHECKING

from softipu.errors import Error

if TYPE_CHECKING:
    from softipu.poptorch.options.model_options import Options

MODEL_VERSIONS = ("ipu1", "ipu2", "ipu21")


def wants_ipu_model(options: "Options") -> bool:
    """Whether the IPU Model is asked for: by ``useIpuModel``, or else by POPTORCH_IPU_MODEL or POPTORCH_SMALL_IPU_MODEL.

    Raises:
        Error: a variable holds no integer.
    """
    if options.exists("use_model"):
        return options.use_model
    return any(_switched_on(name) for name in ("POPTORCH_IPU_MODEL", "POPTORCH_SMALL_IPU_MODEL"))


def _switched_on(name: str) -> bool:
    value = os.environ.get(name, "0")
    try:
        return int(value) != 0
    except ValueError:
        raise Error(f"Environment variable {name} must be an integer, 0 for off, given {value!r}.") from None


def ipu_model_version() -> str:
    """POPTORCH_IPU_MODEL_VERSION, ipu2 when it is not set.

    Raises:
        Error: an unknown version.
    """
    version = os.environ.get("POPTORCH_IPU_MODEL_VERSION", "ipu2")
    if version not in MODEL_VERSIONS:
        raise Error(f"Unknown IPU model version {version!r} in POPTORCH_IPU_MODEL_VERSION. Valid values are {', '.join(MODEL_VERSIONS)}.")
    return version


def check_target(options: "Options") -> None:
    """Refuse devices that cannot be had together.

    Raises:
        Error: an offline target and the IPU Model, or an unknown version of the IPU Model.
    """
    if not wants_ipu_model(options):
        return
    ipu_model_version()
    if options.exists("ipu_version"):
        raise Error(
            "useOfflineIpuTarget() cannot be used with the IPU Model. Leave one of them out: useIpuModel(True) or POPTORCH_IPU_MODEL "
            "asks for the IPU Model."
        )
