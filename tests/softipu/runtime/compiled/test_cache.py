"""Programs on disk are used only if they are what this user wrote; whatever is wrong with the disk, training goes on."""

import errno
import json
import multiprocessing
import os
from pathlib import Path

import pytest
import torch

from softipu import poptorch
from softipu.poptorch.executor import engine_choice
from softipu.runtime.compiled import cache as cache_module
from softipu.runtime.compiled import engine as compiled_engine
from softipu.runtime.compiled.cache import ProgramCache

PROGRAM = "def call(inputs):\n    return inputs\n"


@pytest.fixture(autouse=True)
def secret(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def keep(cache, key="k", program=PROGRAM, kernel=b"machine code"):
    folder = cache.new_folder(key)
    (folder / "ab").mkdir()
    (folder / "ab" / "kernel.so").write_bytes(kernel)
    return folder, cache.keep(key, folder, program, [str(folder / "ab" / "kernel.so")], ["avx2"], {"n_stages": 1})


def test_what_was_kept_is_found(tmp_path):
    folder, kept = keep(ProgramCache(str(tmp_path)))
    found = ProgramCache(str(tmp_path)).find("k")
    assert kept
    assert (found.program, found.folder, found.instructions) == (PROGRAM, folder, ["avx2"])
    assert Path(found.path).read_text() == PROGRAM


def test_an_unknown_key_is_not_found(tmp_path):
    assert ProgramCache(str(tmp_path)).find("k") is None


@pytest.mark.parametrize("damaged", ["program.py", "ab/kernel.so"])
@pytest.mark.parametrize("content", [b"", b"something else", None])
def test_damaged_files_are_not_used(tmp_path, damaged, content):
    cache = ProgramCache(str(tmp_path))
    folder, _ = keep(cache)
    (folder / damaged).unlink()
    if content is not None:
        (folder / damaged).write_bytes(content)
    assert cache.find("k") is None
    keep(cache)
    assert cache.find("k").program == PROGRAM


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"folder": 1, "instructions": null}', "\x00"])
def test_a_damaged_note_is_not_used(tmp_path, text):
    cache = ProgramCache(str(tmp_path))
    keep(cache)
    (cache.folder / "k.json").write_text(text)
    assert cache.find("k") is None
    assert not (cache.folder / "k.json").exists()


@pytest.mark.parametrize(
    "changed", [{"instructions": ["avx512"]}, {"code": "0" * 64}, {"folder": "elsewhere"}, {"files": {}}, {"details": {"n_stages": 2}}]
)
def test_a_changed_note_is_not_used(tmp_path, changed):
    cache = ProgramCache(str(tmp_path))
    keep(cache)
    note = cache.folder / "k.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), **changed}))
    assert cache.find("k") is None


def test_a_note_does_not_hold_for_another_key(tmp_path):
    cache = ProgramCache(str(tmp_path))
    keep(cache)
    (cache.folder / "other.json").write_bytes((cache.folder / "k.json").read_bytes())
    assert cache.find("other") is None
    assert cache.find("k") is not None


def test_builds_of_another_user_are_not_used(tmp_path, monkeypatch):
    keep(ProgramCache(str(tmp_path)))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    assert ProgramCache(str(tmp_path)).find("k") is None


def test_a_new_build_has_an_empty_folder_of_its_own(tmp_path):
    cache = ProgramCache(str(tmp_path))
    (cache.folder / "k-planted" / "ab").mkdir(parents=True)
    first, second = cache.new_folder("k"), cache.new_folder("k")
    assert first != second
    assert list(first.iterdir()) == list(second.iterdir()) == []


def test_kernels_of_another_build_are_copied(tmp_path):
    cache = ProgramCache(str(tmp_path))
    first, _ = keep(cache)
    second = cache.new_folder("l")
    cache.keep("l", second, PROGRAM, [str(first / "ab" / "kernel.so")], [], {})
    assert cache.find("l").folder == second
    assert (second / "ab" / "kernel.so").read_bytes() == b"machine code"


def test_a_folder_that_cannot_be_made_is_replaced_by_a_temporary_one(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = ProgramCache(str(tmp_path / "file"))
    assert tmp_path not in cache.folder.parents
    keep(cache)
    assert cache.find("k").program == PROGRAM


def test_a_folder_that_is_read_only_is_replaced_by_a_temporary_one(tmp_path, monkeypatch):
    original = cache_module.tempfile.mkstemp

    def mkstemp(*args, **kwargs):
        if str(kwargs.get("dir", "")).startswith(str(tmp_path)):
            raise PermissionError(errno.EACCES, "Permission denied")
        return original(*args, **kwargs)

    monkeypatch.setattr(cache_module.tempfile, "mkstemp", mkstemp)
    cache = ProgramCache(str(tmp_path))
    assert tmp_path not in cache.folder.parents
    assert keep(cache)[1]


def test_a_full_disk_keeps_nothing_and_leaves_nothing_half(tmp_path, monkeypatch):
    cache = ProgramCache(str(tmp_path))
    original = os.fdopen

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, content):
            self.file.write(content[:3])
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache_module.os, "fdopen", lambda *a, **k: Full(original(*a, **k)))
    folder, kept = keep(cache)
    monkeypatch.undo()
    assert not kept
    assert [p.name for p in cache.folder.iterdir()] == [folder.name]
    assert [p.name for p in folder.iterdir()] == ["ab"]


def _keep_often(path, letter, config):
    os.environ["XDG_CONFIG_HOME"] = config
    cache = ProgramCache(path)
    for _ in range(20):
        keep(cache, program=f"# {letter}\n{PROGRAM}", kernel=letter.encode())
        found = cache.find("k")
        assert found is not None
        assert found.program[2] == (found.folder / "ab" / "kernel.so").read_text()


def test_two_processes_keep_the_same_key_at_once(tmp_path):
    ProgramCache(str(tmp_path))  # makes the secret
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_keep_often, args=(str(tmp_path), letter, str(tmp_path / "config"))) for letter in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]


def test_without_a_place_for_the_secret_builds_hold_for_the_process(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    cache = ProgramCache(str(tmp_path / "cache"))
    keep(cache)
    assert cache.find("k").program == PROGRAM
    assert ProgramCache(str(tmp_path / "cache")).find("k") is None


@pytest.mark.slow
def test_a_second_model_of_the_same_make_is_not_compiled(tmp_path, monkeypatch):
    compiled = []
    original = compiled_engine.backend_source
    monkeypatch.setattr(compiled_engine, "backend_source", lambda *a: compiled.append(a) or original(*a))
    monkeypatch.setattr(compiled_engine, "can_fork", lambda: False)  # so that it is seen here
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
