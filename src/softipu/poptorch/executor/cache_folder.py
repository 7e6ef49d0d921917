"""Options.enableExecutableCaching: the folder where the engine keeps what it compiles."""

import os
from typing import Optional

from softipu.poptorch.options import Options


def cache_folder(options: Options) -> Optional[str]:
    """The folder, made if it is missing; None: no caching was asked for.

    Raises:
        AssertionError: it cannot be made or written to.
    """
    settings = options._Popart.options
    if not settings.get("enableEngineCaching"):
        return None
    path = str(settings["cachePath"])
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise AssertionError(f"The folder of Options.enableExecutableCaching, {path}, cannot be made: {error}.") from error
    assert os.access(path, os.W_OK | os.X_OK), f"The folder of Options.enableExecutableCaching, {path}, is not writable."
    return path
