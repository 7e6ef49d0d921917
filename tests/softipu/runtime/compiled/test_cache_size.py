"""The cache of compiled programs stays below its limit; what was used last stays longest."""

import json
import os

import pytest

from softipu.runtime.compiled.cache import ProgramCache
from softipu.runtime.compiled.cache_size import trim

DAY = 24 * 3600


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return ProgramCache(str(tmp_path))


def keep(cache, key, n_bytes=1000, age=0):
    folder = cache.new_folder(key)
    (folder / "ab").mkdir()
    (folder / "ab" / "kernel.so").write_bytes(b"0" * n_bytes)
    cache.keep(key, folder, "", [str(folder / "ab" / "kernel.so")], [], {})
    note = cache.folder / f"{key}.json"
    os.utime(str(note), (note.stat().st_atime, note.stat().st_mtime - age))
    return folder


def test_the_least_recently_used_builds_go_first(cache):
    folders = {key: keep(cache, key, age=age) for key, age in (("old", 300), ("older", 400), ("new", 100), ("found", 500))}
    assert cache.find("found") is not None  # used just now
    trim(cache.folder, limit_bytes=2500)
    assert [key for key, folder in folders.items() if folder.exists()] == ["new", "found"]
    assert sorted(path.stem for path in cache.folder.glob("*.json")) == ["found", "new"]


def test_below_the_limit_nothing_goes(cache):
    folders = [keep(cache, key) for key in "abc"]
    trim(cache.folder, limit_bytes=3000)
    assert all(folder.exists() for folder in folders)


def test_what_a_failed_build_left_goes_after_a_day(cache):
    left, running = cache.new_folder("left"), cache.new_folder("running")
    os.utime(str(left), (left.stat().st_atime, left.stat().st_mtime - 2 * DAY))
    keep(cache, "kept")
    assert not left.exists()
    assert running.exists()


def test_nothing_outside_the_cache_is_removed(cache, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_bytes(b"0" * 5000)
    (cache.folder / "planted.json").write_text(json.dumps({"folder": "../precious"}))
    trim(cache.folder, limit_bytes=0)
    assert (tmp_path / "precious" / "file").exists()
