"""Keeps the cache of compiled programs from growing for ever: what was not used for longest goes first."""

import json
import shutil
import time
from pathlib import Path
from typing import List, Tuple

LIMIT_BYTES = 1 << 30
_BUILDING_SECONDS = 24 * 3600.0  # a folder without a note may be a build that still runs


def trim(folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
    """Removes builds, least recently used first, until the rest takes at most ``limit_bytes``, and what failed builds left a day ago.

    A process that runs a build keeps it: its files stay until it ends. One that looks for it compiles it anew.
    """
    builds: List[Tuple[float, Path, Path]] = []
    for note in folder.glob("*.json"):
        try:
            builds.append((note.stat().st_mtime, note, folder / str(json.loads(note.read_text(encoding="utf-8"))["folder"])))
        except (OSError, ValueError, KeyError, TypeError):  # another process removed it, or it is damaged and will not be used
            continue
    sizes = {note: _bytes(build) for _, note, build in builds}
    total = sum(sizes.values())
    for _, note, build in sorted(builds, key=lambda one: one[0]):
        if total <= limit_bytes:
            break
        total -= sizes[note]
        _remove(note, build)
    noted = {build for _, _, build in builds}
    for left in folder.iterdir():
        if left.is_dir() and left not in noted and _age(left) > _BUILDING_SECONDS:
            shutil.rmtree(str(left), ignore_errors=True)


def _remove(note: Path, build: Path) -> None:
    try:
        note.unlink()
    except OSError:  # gone, or not ours
        return
    if build.parent == note.parent:  # and not somewhere that a damaged note names
        shutil.rmtree(str(build), ignore_errors=True)


def _bytes(build: Path) -> int:
    total = 0
    for file in build.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except OSError:  # removed meanwhile
            continue
    return total


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
