"""The cache of compiled programs: what this user wrote comes back, and nothing else is ever run."""

import json

import pytest
import torch

from softipu import poptorch
from softipu.poptorch import engine_choice
from softipu.runtime.compiled import engine as compiled_engine
from softipu.runtime.compiled.cache import ProgramCache

PROGRAM = "print('a program')\n"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return ProgramCache(str(tmp_path / "cache"))


def kernel(cache, text="int kernel() { return 1; }"):
    path = cache.kernels / "ab" / "kernel.cpp"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_program_that_was_kept_is_found_by_its_key(cache):
    cache.keep("one", PROGRAM, [str(kernel(cache))])
    assert cache.find("one") == PROGRAM
    assert cache.find("two") is None


def test_another_process_of_the_user_finds_it_too(cache, tmp_path):
    cache.keep("one", PROGRAM, [])
    assert ProgramCache(str(tmp_path / "cache")).find("one") == PROGRAM


def test_somebody_elses_entry_is_removed_and_not_used(cache, tmp_path, monkeypatch):
    cache.keep("one", PROGRAM, [])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another user"))
    other = ProgramCache(str(tmp_path / "cache"))
    assert other.find("one") is None
    assert not (other.folder / "one.json").exists() and not (other.folder / "one.py").exists()


@pytest.mark.parametrize("damage", ["program", "kernel", "note", "no note", "no program", "no kernel", "another key", "list", "number"])
def test_a_damaged_entry_is_not_used(cache, damage):
    path = kernel(cache)
    cache.keep("one", PROGRAM, [str(path)])
    note, program = cache.folder / "one.json", cache.folder / "one.py"
    if damage == "program":
        program.write_text(PROGRAM + "import os\n")
    elif damage == "kernel":
        path.write_text("int kernel() { return 2; }")
    elif damage == "note":
        note.write_text(note.read_text()[:-5])
    elif damage == "another key":
        (cache.folder / "two.json").write_text(note.read_text())
        (cache.folder / "two.py").write_text(PROGRAM)
        assert cache.find("two") is None
        return
    elif damage == "list":
        note.write_text("[]")
    elif damage == "number":
        found = json.loads(note.read_text())
        found["files"] = 3
        note.write_text(json.dumps(found))
    else:
        {"no note": note, "no program": program, "no kernel": path}[damage].unlink()
    assert cache.find("one") is None
    cache.keep("one", PROGRAM, [str(kernel(cache))])
    assert cache.find("one") == PROGRAM


def test_a_program_with_kernels_from_elsewhere_is_not_kept(cache, tmp_path):
    elsewhere = tmp_path / "kernel.cpp"
    elsewhere.write_text("int kernel() { return 1; }")
    cache.keep("one", PROGRAM, [str(elsewhere)])
    assert cache.find("one") is None


def test_a_folder_that_cannot_be_made_is_replaced_by_a_temporary_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "file").write_text("")
    cache = ProgramCache(str(tmp_path / "file" / "cache"))
    cache.keep("one", PROGRAM, [])
    assert cache.find("one") == PROGRAM
    assert tmp_path not in cache.folder.parents


def test_without_a_place_for_the_secret_entries_hold_for_the_process(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    cache = ProgramCache(str(tmp_path / "cache"))
    cache.keep("one", PROGRAM, [])
    assert cache.find("one") == PROGRAM
    assert ProgramCache(str(tmp_path / "cache")).find("one") is None


@pytest.mark.slow
def test_a_second_model_of_the_same_make_is_not_compiled(tmp_path, monkeypatch):
    compiled = []
    original = compiled_engine.backend_source
    monkeypatch.setattr(compiled_engine, "backend_source", lambda *a: compiled.append(a) or original(*a))
    options = poptorch.Options().enableExecutableCaching(str(tmp_path / "cache"))
    x = torch.randn(4, 3)
    for n in range(2):
        torch.manual_seed(n)
        model = torch.nn.Linear(3, 2)
        with engine_choice.using("compiled"):
            executor = poptorch.inferenceModel(model, options)
        torch.testing.assert_close(executor(x), model(x), rtol=1e-5, atol=1e-6)
        assert len(compiled) == 1
    assert list((tmp_path / "cache").rglob("*.json"))
