"""The example runs as its users run it: in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits.py"


def run_digits(tmp_path: Path, *arguments: str, hide: str = "") -> str:
    """Output of the example, both streams; ``hide`` names a package that it shall not find."""
    program = f"import runpy, sys; sys.modules[{hide!r}] = None; runpy.run_path({str(DIGITS)!r}, run_name='__main__')"
    start = ["-c", program] if hide else [str(DIGITS)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, *start, *arguments],
        cwd=str(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env=environment,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def accuracy_percent(output: str) -> float:
    match = re.search(r"Test accuracy after \d+ epochs: ([\d.]+)%", output)
    assert match, output
    return float(match.group(1))


@pytest.mark.slow
@pytest.mark.parametrize("accelerator", ["ipu", "cpu"])
def test_digits_reaches_97_percent(accelerator, tmp_path):
    assert accuracy_percent(run_digits(tmp_path, "--accelerator", accelerator)) >= 97.0


@pytest.mark.slow
@pytest.mark.parametrize("hide", ["lightning", "pytorch_lightning"])
def test_digits_needs_one_of_the_two_lightning_packages(hide, tmp_path):
    if hide == "pytorch_lightning":
        pytest.importorskip("lightning")
    accuracy_percent(run_digits(tmp_path, "--epochs", "1", hide=hide))


def test_digits_leaves_no_files_behind(tmp_path):
    run_digits(tmp_path, "--epochs", "1")
    assert list(tmp_path.iterdir()) == []
