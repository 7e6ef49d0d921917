"""Programs in the documentation run as they are printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def whole_programs():
    """Python blocks that import what they use from the first line on; other blocks are excerpts."""
    for page in PAGES:
        blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for number, block in enumerate(blocks):
            if block.startswith("import torch\n"):
                yield pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")


def test_there_are_programs_in_the_documentation():
    assert len(list(whole_programs())) >= 3


@pytest.mark.parametrize("program", list(whole_programs()))
def test_program_runs(program, tmp_path):
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, "program.py"],
        cwd=str(tmp_path),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stdout
