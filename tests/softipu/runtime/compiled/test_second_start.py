"""What was compiled once is loaded the next time, in another process too, and built anew if it was damaged."""

import json
import subprocess
import sys

import pytest
import torch
from torch.fx import symbolic_trace
from torch.fx.experimental.proxy_tensor import make_fx

from softipu.runtime import CannotCompile, EngineSettings
from softipu.runtime.compiled import engine as engine_module
from softipu.runtime.compiled.compiler import find_compiler
from softipu.runtime.compiled.engine import CompiledEngine

SCRIPT = """
import sys
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from softipu.runtime import EngineSettings
from softipu.runtime.compiled.engine import CompiledEngine
x = torch.linspace(-1, 1, 64)
graph = make_fx(lambda x: [torch.tanh(x) * 2 + x.sum()])(x)
call = CompiledEngine(EngineSettings(sys.argv[1], True)).compile(graph, [x], "step")
torch.testing.assert_close(call(x)[0], torch.tanh(x) * 2 + x.sum())
print("with the compiler" if "torch._inductor.lowering" in sys.modules else "without the compiler", file=sys.stderr)
"""


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """A file; where it is, the C++ compiler compiles nothing."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path, broken = tmp_path / "compiler", tmp_path / "broken"
    fails = f'case "$*" in *.cpp*) [ -e {broken} ] && exit 1 ;; esac'  # questions about the compiler itself are answered
    path.write_text(f'#!/bin/sh\n{fails}\nexec {find_compiler()} "$@"\n')
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))
    return broken


@pytest.mark.slow  # a C++ compiler, and a process that imports torch
def test_a_second_start_compiles_nothing_and_damage_is_built_anew(broken, tmp_path, capfd):
    x = torch.linspace(-1, 1, 64)
    graph = make_fx(lambda x: [torch.tanh(x) * 2 + x.sum()])(x)

    def start():
        call = CompiledEngine(EngineSettings(str(tmp_path / "cache"), True)).compile(graph, [x], "step")
        torch.testing.assert_close(call(x)[0], torch.tanh(x) * 2 + x.sum())
        return capfd.readouterr().err

    assert "softipu: compiled step in" in start()
    before = sorted(tmp_path.glob("cache/softipu/**/*"))
    broken.touch()
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "cache")]
    second = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "compiled step" not in second
    assert "without the compiler" in second
    assert sorted(tmp_path.glob("cache/softipu/**/*")) == before
    broken.unlink()
    notes = [json.loads(path.read_text()) for path in tmp_path.glob("cache/softipu/*.json")]
    (note,) = [note for note in notes if note["details"].get("kernels")]
    for kernel in note["details"]["kernels"].values():
        file = tmp_path / "cache" / "softipu" / note["folder"] / kernel
        file.unlink()  # this process has the old one loaded
        file.write_bytes(b"not a library")
    assert "softipu: compiled step in" in start()


def test_what_the_compiler_says_reaches_the_caller(broken, tmp_path):
    broken.touch()
    x = torch.ones(3)
    graph = symbolic_trace(lambda x: [x.relu()])
    for node in graph.graph.nodes:
        node.meta["val"] = x
    with pytest.raises(CannotCompile, match="^the step could not be compiled: [A-Za-z]*(Error|Invalid)"):
        CompiledEngine(EngineSettings(str(tmp_path / "cache"))).compile(graph, [x], "step")


def test_a_disk_that_takes_nothing_does_not_stop_a_run(tmp_path, monkeypatch):
    engine = CompiledEngine(EngineSettings(str(tmp_path)))
    monkeypatch.setattr(engine_module.ProgramCache, "keep", lambda *_: False)
    monkeypatch.setattr(engine_module, "in_child", lambda work: None)  # all that it would do is lost
    x = torch.ones(3)
    graph = symbolic_trace(lambda x: [x.relu()])
    for node in graph.graph.nodes:
        node.meta["val"] = x
    assert engine.compile(graph, [x], "step") is not None
