"""Which vector instructions this machine can compile and run, found out once.

Inductor compiles a program for each kind and loads it in another process, into the folder of every new build: many seconds, more than
most kernels take. The libraries it makes are kept in the cache, and lie in the folders of later builds from the start.
"""

import shutil
from pathlib import Path
from typing import Any, List, Mapping

from softipu.capture._torch_private import vector_instructions
from softipu.runtime.compiled.cache import ProgramCache, place_of


def checked_instructions(cache: ProgramCache, key: str, folder: Path, settings: Mapping[str, Any]) -> List[str]:
    """Names, best first.

    Args:
        cache: where the checks' libraries are kept.
        key: of the machine, PyTorch and compiler.
        folder: of a build whose kernels have not been compiled yet.
        settings: of Inductor for that build.
    """
    known = cache.find(key)
    if known is not None:
        for place in known.details["places"]:
            (folder / place).parent.mkdir(exist_ok=True)
            shutil.copyfile(str(known.folder / place), str(folder / place))
    found = vector_instructions(settings)
    libraries = sorted(folder.glob("*/*.so"))
    if known is None and libraries:  # none if this process has asked before
        details = {"places": [place_of(library) for library in libraries]}
        cache.keep(key, cache.new_folder(key), "", [str(library) for library in libraries], found, details)
    return found
