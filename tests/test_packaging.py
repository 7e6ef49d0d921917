"""What a user's `pip install` brings: the wheel, built from this tree."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory):
    """Names of the files in the wheel. Built from a copy of the tracked files."""
    pytest.importorskip("hatchling", reason="builds the wheel")
    tree = tmp_path_factory.mktemp("tree")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=str(ROOT), stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    for name in filter(None, tracked):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out), str(tree)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    assert result.returncode == 0, result.stdout
    (wheel,) = out.glob("lightning_ipu-*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_wheel_holds_every_file_of_both_packages(wheel_names):
    tracked = subprocess.run(["git", "ls-files", "-z", "src"], cwd=str(ROOT), stdout=subprocess.PIPE, check=True).stdout.decode()
    sources = {name[len("src/") :] for name in tracked.split("\0") if name and (ROOT / name).is_file()}
    assert {"lightning_ipu/__init__.py", "softipu/__init__.py"} <= sources
    assert sources - wheel_names == set()


@pytest.mark.parametrize("package", ["lightning_ipu", "softipu"])
def test_type_checkers_see_the_packages_as_typed(package, wheel_names):
    assert f"{package}/py.typed" in wheel_names


def test_wheel_holds_the_licence(wheel_names):
    assert any(name.endswith("LICENSE") for name in wheel_names)
