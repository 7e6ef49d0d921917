"""Compiled programs on disk.

    <folder>/softipu/<key>.py     a program: Python that calls kernels
    <folder>/softipu/<key>.json   the SHA-256 of the program and of its kernels, and a code that only this user can make
    <folder>/softipu/kernels/     C++ kernels, by a hash of their source

Programs and kernels are code, so an entry is used only if it is what this user wrote: its code (HMAC-SHA256) is made with a secret
that lies outside the cache. An entry that is damaged, or comes from somebody else, is built anew.
"""

import hashlib
import hmac
import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import Dict, List, Optional

_SCHEMA = 1


class ProgramCache:
    """The cache in a folder; None is the user's own, and where that cannot be written, a temporary one of this process."""

    def __init__(self, folder: Optional[str] = None) -> None:
        self.folder = _usable(Path(folder).expanduser() if folder else _user_folder("XDG_CACHE_HOME", ".cache")) / "softipu"
        self.kernels = self.folder / "kernels"
        self.kernels.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._secret = _secret()

    def path(self, key: str) -> str:
        """Where the program of that key stands."""
        return str(self.folder / f"{key}.py")

    def find(self, key: str) -> Optional[str]:
        """The program, if it and all its kernels are what was kept; an entry that is not is removed."""
        note = self.folder / f"{key}.json"
        try:
            found = json.loads(note.read_text(encoding="utf-8"))
            files = {str(name): str(value) for name, value in found["files"].items()}
            genuine = hmac.compare_digest(str(found["code"]), self._code(key, files))
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            genuine, files = False, {}
        if genuine and all(_digest(self.folder / name) == value for name, value in files.items()):
            return (self.folder / f"{key}.py").read_text(encoding="utf-8")
        self._remove([note, self.folder / f"{key}.py"] + [self.folder / n for n, v in files.items() if _digest(self.folder / n) != v])
        return None

    def keep(self, key: str, program: str, kernels: List[str]) -> None:
        """Writes an entry; ``kernels`` are files below the folder, or elsewhere and then not kept."""
        _write(self.folder / f"{key}.py", program)
        inside = [Path(k).resolve() for k in kernels]
        root = self.folder.resolve()
        if not all(root in k.parents for k in inside):
            return
        files: Dict[str, str] = {f"{key}.py": hashlib.sha256(program.encode()).hexdigest()}
        files.update({str(k.relative_to(root)): _digest(k) for k in inside})
        _write(self.folder / f"{key}.json", json.dumps({"schema": _SCHEMA, "files": files, "code": self._code(key, files)}))

    def _code(self, key: str, files: Dict[str, str]) -> str:
        text = json.dumps([_SCHEMA, key, sorted(files.items())])
        return hmac.new(self._secret, text.encode(), "sha256").hexdigest()

    @staticmethod
    def _remove(paths: List[Path]) -> None:
        for path in paths:
            try:
                path.unlink()
            except OSError:  # not there, or not ours: it is not used either way
                continue


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _write(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=str(path.parent))
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(name, str(path))  # whole or not at all, also when two processes write


def _user_folder(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / default)


def _usable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(str(folder), os.W_OK):
            return folder
    except (OSError, RuntimeError):
        pass
    return Path(tempfile.mkdtemp(prefix="softipu-"))


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
