"""The PopTorch examples run as their users run them, through `lightning-ipu run`; each compares itself with the CPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "poptorch"
SAYS = {
    "basics.py": "the weights are those of the CPU",
    "data_loading.py": "Async: a call takes 48 rows",
    "pipelining.py": "pipelined : loss",
    "mixed_precision.py": "half precision learns what float learns on the CPU",
    "observing_tensors.py": "Gradient__hidden",
    "custom_loss.py": "every loss is that of the CPU",
    "replicated_inference.py": "all 96 results are those of the CPU",
}


def test_every_example_is_known_and_described():
    scripts = sorted(path.name for path in FOLDER.glob("*.py"))
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert scripts == sorted(SAYS) and all(f"`{name}`" in readme for name in scripts)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_example_runs_and_matches_the_cpu(name, tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", "lightning_ipu.cli", "run", str(FOLDER / name)],
        cwd=str(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env={**os.environ, "OMP_NUM_THREADS": "1", "LIGHTNING_IPU_BACKEND": "software"},
    )
    assert result.returncode == 0, result.stdout
    assert SAYS[name] in result.stdout
