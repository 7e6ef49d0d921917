"""profiling.Channel does nothing without PVTI, and uses it where it is."""

import contextlib
import sys
import types

import pytest

from softipu.poptorch.profiling import Channel


class Thing:
    def work(self):
        return 3


def test_without_pvti_nothing_is_traced(monkeypatch):
    monkeypatch.delenv("PVTI_OPTIONS", raising=False)
    thing, channel = Thing(), Channel("app")
    assert channel.instrument(thing, "work") is thing and thing.work() == 3
    with channel.tracepoint("span"):
        pass


def test_missing_library_is_logged_not_raised(monkeypatch, caplog):
    monkeypatch.setenv("PVTI_OPTIONS", "{}")
    monkeypatch.setitem(sys.modules, "libpvti", None)
    caplog.set_level("INFO", logger="poptorch::python")
    with Channel("app").tracepoint("span"):
        pass
    assert "Tracepoints disabled" in caplog.text


def test_library_gets_channels_methods_and_names(monkeypatch):
    calls = []
    library = types.ModuleType("libpvti")
    library.createTraceChannel = lambda name: calls.append(("channel", name)) or f"<{name}>"
    library.instrument = lambda obj, methods, channel: calls.append(("instrument", methods, channel))

    @contextlib.contextmanager
    def tracepoint(channel, name):
        calls.append(("begin", channel, name))
        yield
        calls.append(("end", name))

    library.Tracepoint = tracepoint
    monkeypatch.setenv("PVTI_OPTIONS", "{}")
    monkeypatch.setitem(sys.modules, "libpvti", library)
    monkeypatch.setattr(Channel, "_channels", {})
    channel = Channel("app")
    Channel("app")
    channel.instrument(Thing(), "work")
    with pytest.raises(KeyError), channel.tracepoint("span"):
        raise KeyError
    assert calls == [("channel", "app"), ("instrument", ("work",), "<app>"), ("begin", "<app>", "app.span")]
