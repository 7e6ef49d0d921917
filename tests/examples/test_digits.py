"""The example runs as its users run it: in a process of its own."""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Dict, Optional, Sequence

import pytest

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits.py"


def run_digits(tmp_path: Path, *arguments: str, environment: Optional[Dict[str, str]] = None, flags: Sequence[str] = ()) -> str:
    """Output of the example, both streams. It runs in ``tmp_path``."""
    result = subprocess.run(
        [sys.executable, *flags, str(DIGITS), *arguments],
        cwd=str(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def packages_without(name: str, folder: Path) -> Path:
    """``folder`` with links to all installed packages but one: an environment in which that one is not installed."""
    folder.mkdir()
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if re.split(r"[.-]", entry.name)[0] != name:
            (folder / entry.name).symlink_to(entry)
    return folder


def accuracy_percent(output: str) -> float:
    match = re.search(r"Test accuracy after \d+ epochs: ([\d.]+)%", output)
    assert match, output
    return float(match.group(1))


@pytest.fixture(scope="module")
def ipu_run(tmp_path_factory):
    """The folder that the example ran in on two IPUs, and its output."""
    folder = tmp_path_factory.mktemp("ipu")
    return folder, run_digits(folder, environment={"LIGHTNING_IPU_BACKEND": "software"})


@pytest.mark.slow
def test_digits_reaches_97_percent_on_two_ipus(ipu_run):
    assert accuracy_percent(ipu_run[1]) >= 97.0


@pytest.mark.slow
def test_digits_says_which_engine_runs_and_why(ipu_run):
    assert "running on the software IPU: LIGHTNING_IPU_BACKEND=software" in ipu_run[1]


@pytest.mark.slow
def test_digits_leaves_no_files_behind(ipu_run):
    assert list(ipu_run[0].iterdir()) == []


@pytest.mark.slow
def test_digits_reaches_97_percent_on_the_cpu(tmp_path):
    assert accuracy_percent(run_digits(tmp_path, "--accelerator", "cpu")) >= 97.0


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["lightning", "pytorch_lightning"])
def test_digits_needs_one_of_the_two_lightning_packages(missing, tmp_path):
    packages = packages_without(missing, tmp_path / "packages")
    # -S: the environment's own folder of packages is not put on the path.
    paths = os.pathsep.join([str(packages), str(DIGITS.parent.parent / "src")])
    output = run_digits(tmp_path, "--epochs", "1", flags=["-S"], environment={"PYTHONPATH": paths})
    assert accuracy_percent(output) > 50
