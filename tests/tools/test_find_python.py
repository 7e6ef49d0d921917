"""The script that the Makefile asks for interpreters."""

import subprocess
import sys
from pathlib import Path
from typing import Dict, Optional

SCRIPT = Path(__file__).parent.parent.parent / "tools" / "find_python.sh"
THIS_VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
SYSTEM_PATH = "/usr/bin:/bin"


def find(*wanted: str, home: Path, path: str = "", environment: Optional[Dict[str, str]] = None) -> "subprocess.CompletedProcess[str]":
    variables = {"HOME": str(home), "PATH": f"{path}:{SYSTEM_PATH}" if path else SYSTEM_PATH, **(environment or {})}
    return subprocess.run(["bash", str(SCRIPT), *wanted], capture_output=True, encoding="utf-8", env=variables)


def place(interpreter: Path, script: str) -> Path:
    """Writes an executable shell script where an interpreter would be."""
    interpreter.parent.mkdir(parents=True, exist_ok=True)
    interpreter.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    interpreter.chmod(0o755)
    return interpreter


def real(interpreter: Path) -> Path:
    return place(interpreter, f'exec {sys.executable} "$@"')


def test_a_path_is_taken_as_it_is(tmp_path):
    python = real(tmp_path / "mine" / "python")
    assert find(str(python), home=tmp_path).stdout.strip() == str(python)


def test_a_command_that_does_not_start_is_passed_over(tmp_path):
    # What pyenv puts on PATH for versions that are not activated.
    place(tmp_path / "shims" / f"python{THIS_VERSION}", "echo 'command not found' >&2; exit 127")
    good = real(tmp_path / "other" / f"python{THIS_VERSION}")
    assert find(THIS_VERSION, home=tmp_path, path=f"{tmp_path}/shims:{tmp_path}/other").stdout.strip() == str(good)


def test_versions_that_pyenv_holds_are_found_without_activation(tmp_path):
    good = place(tmp_path / "pyenv" / "versions" / "3.99.1" / "bin" / "python", "exit 0")
    place(tmp_path / "pyenv" / "shims" / "python3.99", "exit 127")
    found = find("3.99", home=tmp_path, path=f"{tmp_path}/pyenv/shims", environment={"PYENV_ROOT": str(tmp_path / "pyenv")})
    assert found.stdout.strip() == str(good)


def test_pyenv_is_found_by_its_command_under_a_fresh_home(tmp_path):
    version = "3.98"
    place(tmp_path / "pyenv" / "bin" / "pyenv", "echo /nowhere")
    good = place(tmp_path / "pyenv" / "versions" / f"{version}.1" / "bin" / "python", "exit 0")
    assert find(version, home=tmp_path / "fresh", path=str(tmp_path / "pyenv" / "bin")).stdout.strip() == str(good)


def test_an_interpreter_of_another_version_is_refused(tmp_path):
    real(tmp_path / "bin" / "python3.97")
    result = find("3.97", home=tmp_path, path=str(tmp_path / "bin"))
    assert result.returncode == 1
    assert "No usable Python found" in result.stderr and "3.97" in result.stderr


def test_the_first_wanted_version_wins(tmp_path):
    place(tmp_path / "bin" / "python3.96", "exit 0")
    place(tmp_path / "bin" / "python3.95", "exit 0")
    assert find("3.95", "3.96", home=tmp_path, path=str(tmp_path / "bin")).stdout.strip() == str(tmp_path / "bin" / "python3.95")
