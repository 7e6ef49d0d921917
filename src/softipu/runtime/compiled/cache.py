"""Compiled programs on disk.

    <folder>/softipu/<key>.json        the good build: its folder, the SHA-256 of each of its files, a code that only this user can make
    <folder>/softipu/<key>-<random>/   a build: program.py, which calls kernels, and the C++ kernels

Programs and kernels are code, so a build is used only if it is what this user wrote: its code (HMAC-SHA256) is made with a secret
that lies outside the cache. A build that is damaged, or comes from somebody else, is made anew in a folder of its own, so that nothing
that lies about is taken for a kernel, and processes that build the same thing at the same time do not meet.
"""

import atexit
import functools
import hashlib
import hmac
import json
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from softipu.runtime.compiled.cache_size import trim

_SCHEMA = 3
_PROGRAM = "program.py"


@dataclass(frozen=True)
class Build:
    """A program that was found.

    Attributes:
        program: Python.
        folder: where its kernels are.
        instructions: vector instructions that they were compiled with, best first.
        details: what was kept with it, JSON.
    """

    program: str
    folder: Path
    instructions: List[str]
    details: Dict[str, Any]

    @property
    def path(self) -> str:
        """Where the program stands."""
        return str(self.folder / _PROGRAM)


class ProgramCache:
    """The cache in a folder; None is the user's own. Where that cannot be written, builds last as long as this process."""

    def __init__(self, folder: Optional[str] = None) -> None:
        self.folder = _usable(Path(folder).expanduser() if folder else _user_folder("XDG_CACHE_HOME", ".cache"))
        self._secret = _secret()

    def find(self, key: str) -> Optional[Build]:
        """The build of that key, if all of it is what was kept; the note of one that is not is removed."""
        note = self.folder / f"{key}.json"
        try:
            found = json.loads(note.read_text(encoding="utf-8"))
            folder, instructions = str(found["folder"]), [str(i) for i in found["instructions"]]
            files = {str(name): str(value) for name, value in found["files"].items()}
            details = dict(found["details"])
            genuine = hmac.compare_digest(str(found["code"]), self._code(key, folder, instructions, files, details))
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            _remove(note)
            return None
        if not genuine:
            _remove(note)
            return None
        there = self.folder / folder
        if all(_digest(there / name) == value for name, value in files.items()):
            try:
                build = Build((there / _PROGRAM).read_text(encoding="utf-8"), there, instructions, details)
                _touch(note)
                return build
            except OSError:  # went away just now
                return None
        _remove(note)
        shutil.rmtree(str(there), ignore_errors=True)
        return None

    def new_folder(self, key: str) -> Path:
        """An empty folder for a build; a temporary one where the cache takes no more."""
        try:
            return Path(tempfile.mkdtemp(prefix=f"{key}-", dir=str(self.folder)))
        except OSError:
            return Path(tempfile.mkdtemp(prefix=f"{key}-", dir=str(_temporary_folder())))

    def keep(
        self, key: str, folder: Path, program: str, kernels: Sequence[str], instructions: List[str], details: Mapping[str, Any]
    ) -> bool:
        """Makes the build in ``folder`` the one that is found; returns whether that was possible.

        Args:
            key: of the program.
            folder: from ``new_folder``.
            program: Python.
            kernels: files ``.../xx/name`` that it calls; those of another build are copied into this one.
            instructions: what they were compiled with.
            details: of the program, JSON.
        """
        try:
            _write(folder / _PROGRAM, program.encode())
            files = {_PROGRAM: hashlib.sha256(program.encode()).hexdigest()}
            for kernel in map(Path, kernels):
                name = place_of(kernel)
                if (folder / name).resolve() != kernel.resolve():
                    (folder / name).parent.mkdir(exist_ok=True)
                    _write(folder / name, kernel.read_bytes())
                files[name] = _digest(folder / name)
            note: Dict[str, Any] = {"schema": _SCHEMA, "folder": folder.name, "instructions": instructions, "files": files}
            note.update(details=dict(details), code=self._code(key, folder.name, instructions, files, details))
            _write(self.folder / f"{key}.json", json.dumps(note).encode())
        except OSError:  # no space, or no permission: this process has what it needs in memory
            return False
        trim(self.folder)
        return folder.parent == self.folder

    def _code(self, key: str, folder: str, instructions: List[str], files: Dict[str, str], details: Mapping[str, Any]) -> str:
        text = json.dumps([_SCHEMA, key, folder, instructions, sorted(files.items()), details], sort_keys=True)
        return hmac.new(self._secret, text.encode(), "sha256").hexdigest()


def place_of(kernel: Path) -> str:
    """Where in the folder of a build a kernel lies."""
    return f"{kernel.parent.name}/{kernel.name}"


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:  # not there, or not ours: it is not used either way
        return


def _touch(note: Path) -> None:
    """Makes it the most recently used."""
    try:
        os.utime(str(note))
    except OSError:  # somebody else's folder
        return


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all, also when two processes write."""
    handle, name = tempfile.mkstemp(dir=str(path.parent))
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, str(path))
    except OSError:
        _remove(Path(name))
        raise


def _user_folder(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / default)


def _usable(folder: Path) -> Path:
    made = folder / "softipu"
    try:
        made.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=str(made))
        os.close(handle)
        os.unlink(name)
        return made
    except (OSError, RuntimeError):
        return _temporary_folder()


@functools.lru_cache(maxsize=None)
def _temporary_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="softipu-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _secret() -> bytes:
    """This user's secret; made when first needed. Where none can be kept, one for this process."""
    path = _user_folder("XDG_CONFIG_HOME", ".config") / "softipu" / "cache.key"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            handle = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            known = path.read_bytes()
            return known if len(known) >= 32 else secrets.token_bytes(32)
        made = secrets.token_bytes(32)
        with os.fdopen(handle, "wb") as file:
            file.write(made)
        return made
    except OSError:
        return secrets.token_bytes(32)
