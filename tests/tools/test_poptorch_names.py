"""docs/poptorch.md lists every name of poptorch, as the code has it."""

import importlib.util
from pathlib import Path

import pytest

from softipu.poptorch.support import Support, all_names
from tests.softipu.poptorch.public_api import listed

_FILE = Path(__file__).resolve().parents[2] / "tools" / "poptorch_names.py"
_SPEC = importlib.util.spec_from_file_location("poptorch_names", _FILE)
poptorch_names = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(poptorch_names)

_GROUPS = {
    "options._TrainingOptions": "Options.Training",
    "options._PrecisionOptions": "Options.Precision",
    "options._TensorLocationOptions": "Options.TensorLocations",
    "options._DistributedOptions": "Options.Distributed",
    "options._JitOptions": "Options.Jit",
    "options._PopartOptions": "Options._Popart",
}
# Methods of small classes stand under their class; private names and groups of options not at all.
_WITHIN = (
    "Block",
    "MultiConv",
    "TensorLocationSettings",
    "ICustomArgParser",
    "SerialPhasedExecution",
    "ParallelPhasedExecution",
    "profiling.Channel",
)


def test_page_is_up_to_date():
    assert poptorch_names.page() == poptorch_names.PAGE.read_text(encoding="utf-8"), "run python tools/poptorch_names.py"


def test_every_listed_name_of_poptorch_is_on_the_page():
    found = {n.name for n in all_names()}
    for entry in listed():
        owner, _, member = entry.name.rpartition(".")
        name = f"{_GROUPS[owner]}.{member}" if owner in _GROUPS else owner if owner in _WITHIN else entry.name
        is_group = name in {f"Options.{g}" for g in ("Training", "Precision", "TensorLocations", "Distributed", "Jit", "_Popart")}
        hidden = name.startswith(("_impl", "_poplar_executor")) or member.startswith("__") or is_group or entry.name == "DataLoader.options"
        assert hidden or name in found, entry.name


@pytest.mark.parametrize("entry", [n for n in all_names() if n.support is not Support.SUPPORTED], ids=lambda n: n.name)
def test_what_is_not_supported_says_why(entry):
    assert entry.note


def test_names_that_cannot_be_honoured_are_not_called_supported():
    support = {n.name: n.support for n in all_names()}
    assert support["PoplarExecutor.cycleCount"] is support["Options.logCycleCount"] is support["ipuHardwareVersion"] is Support.REFUSED
    assert support["Options.setAvailableMemoryProportion"] is support["set_available_memory"] is Support.REPORTED


def test_a_changed_page_is_noticed(tmp_path, monkeypatch, capsys):
    copy = tmp_path / "poptorch.md"
    copy.write_text(poptorch_names.PAGE.read_text(encoding="utf-8").replace("| supported |", "| reported |", 1), encoding="utf-8")
    monkeypatch.setattr(poptorch_names, "PAGE", copy)
    monkeypatch.setattr(poptorch_names.sys, "argv", ["poptorch_names.py", "--check"])
    assert poptorch_names.main() == 1 and "not up to date" in capsys.readouterr().err
