"""Names, signatures and defaults of poptorch are PopTorch 3.4's."""

import enum
import inspect

import pytest

from softipu import poptorch
from tests.softipu.poptorch.public_api import find, listed, parameters_of

NAMES = listed()


@pytest.mark.parametrize("entry", [e for e in NAMES if e.members is None], ids=lambda e: e.name)
def test_name_has_its_signature(entry):
    found = find(entry.name)
    if entry.parameters is not None:
        owner = find(entry.name.rpartition(".")[0]) if "." in entry.name else None
        assert parameters_of(found, is_method=isinstance(owner, type)) == entry.parameters


@pytest.mark.parametrize("entry", [e for e in NAMES if e.members is not None], ids=lambda e: e.name)
def test_enumeration_has_its_members(entry):
    found = find(entry.name)
    assert issubclass(found, enum.Enum)
    assert [m.name for m in found] == list(entry.members)
    assert all(value is None or found[name].value == value for name, value in entry.members.items())


def test_package_has_nothing_else():
    known = {e.name.split(".")[0] for e in NAMES}
    assert set(poptorch.__all__) - known == {"enums"}  # programs reach enumerations by this module too


@pytest.mark.parametrize("owner", ["PoplarExecutor", "Options", "DataLoader", "AsynchronousDataAccessor", "Stage", "Phase", "MultiConv"])
def test_class_has_nothing_else(owner):
    known = {e.name.split(".")[1] for e in NAMES if e.name.startswith(owner + ".")}
    cls = find(owner)
    parents = {name for parent in cls.__mro__[1:] for name in vars(parent)}
    own = {name for name, value in inspect.getmembers_static(cls)} if hasattr(inspect, "getmembers_static") else set(dir(cls))
    extra = {name for name in own - parents - known if not name.startswith("_")}
    assert extra <= OURS.get(owner, set())


# What the software IPU has besides: for the plug-in and for people who look into the step.
OURS = {"PoplarExecutor": {"step"}, "Options": {"report"}}
