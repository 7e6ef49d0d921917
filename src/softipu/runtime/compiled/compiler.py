"""The C++ compiler that Inductor needs, and what it compiles for."""

import functools
import os
import platform
import shutil
import subprocess
from typing import Optional

from softipu.runtime.engine import CannotCompile

_CANDIDATES = ("g++", "clang++")


def find_compiler() -> str:
    """Path of the C++ compiler: the one in the variable CXX, else g++, else clang++.

    Raises:
        CannotCompile: there is none.
    """
    wanted = os.environ.get("CXX")
    for name in (wanted,) if wanted else _CANDIDATES:
        path = shutil.which(name)
        if path is not None and _version(path) is not None:
            return path
    tried = f"CXX={wanted}" if wanted else " and ".join(_CANDIDATES)
    raise CannotCompile(f"no C++ compiler was found (tried {tried}). Install one, for example g++, or set CXX to its path")


def compiler_version(path: str) -> str:
    """First line of what the compiler says about itself."""
    return _version(path) or ""


@functools.lru_cache(maxsize=None)
def _version(path: str) -> Optional[str]:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.splitlines()[0] if done.stdout else ""


@functools.lru_cache(maxsize=None)
def processor_features() -> str:
    """What kernels are compiled for: the instructions of this processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return platform.processor()
