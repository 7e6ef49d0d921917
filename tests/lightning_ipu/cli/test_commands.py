"""The command line: help, devices, doctor, run."""

import os
import subprocess
import sys

import pytest

from lightning_ipu.cli import COMMANDS, main


def run(*args, **variables):
    environment = {**os.environ, **variables}
    environment.pop("LIGHTNING_IPU_BACKEND", None)
    command = [sys.executable, "-m", "lightning_ipu.cli", *args]
    return subprocess.run(command, capture_output=True, encoding="utf-8", env=environment)


@pytest.fixture
def script(tmp_path):
    """``script(text)``: the path of a file with that text."""

    def write(text):
        path = tmp_path / "script.py"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


def test_no_command_is_no_success(capsys):
    assert main([]) == 2


def test_devices_tells_the_backend_and_the_allowed_numbers(capsys, monkeypatch):
    monkeypatch.delenv("LIGHTNING_IPU_BACKEND", raising=False)
    assert main(["devices"]) == 0
    out = capsys.readouterr().out
    assert "runs on the software IPU: no Poplar SDK found" in out
    assert "1, 2, 4, 8, 16, 32, 64" in out


def test_devices_lists_the_systems_that_plan_takes(capsys):
    assert main(["devices"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line]
    assert {"GC2", "GC200", "Bow", "C600", "m2000", "bow-pod4", "bow-pod16", "bow-pod64", "bow-pod256", "c600-x8"} <= set(listed)


HEAVY = ("torch", "numpy", "lightning", "pytorch_lightning", "transformers", "rich")


@pytest.mark.parametrize("args", [["--help"], ["devices"]])
def test_help_and_devices_start_without_heavy_imports(args):
    """What makes a start slow is imports; seconds would test the machine."""
    program = (
        f"import sys; from lightning_ipu.cli import main\ntry: main({args!r})\nexcept SystemExit: pass\n"
        f"assert not set({HEAVY!r}) & set(sys.modules), sorted(set({HEAVY!r}) & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE).returncode == 0


def test_doctor_runs_a_step_and_finds_nothing_wrong(capsys, monkeypatch):
    monkeypatch.delenv("LIGHTNING_IPU_BACKEND", raising=False)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "1.0 - 0.5 * 1 = 0.5" in out
    assert "No problem found." in out


def test_doctor_reports_a_backend_that_cannot_be_had(capsys, monkeypatch):
    monkeypatch.setenv("LIGHTNING_IPU_BACKEND", "sdk")
    assert main(["doctor"]) == 1
    assert "PROBLEM: LIGHTNING_IPU_BACKEND=sdk, but no Poplar SDK was found" in capsys.readouterr().out


def test_run_gives_the_script_poptorch_and_its_submodules(script):
    text = "import poptorch, poptorch.optim, softipu.poptorch\nfrom poptorch.optim import SGD\n"
    text += "print(poptorch is softipu.poptorch, SGD is softipu.poptorch.optim.SGD)"
    result = run("run", script(text))
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["True", "True"]


def test_run_is_as_python_runs_it(script):
    path = script("import sys\nprint(__name__, __file__ == sys.argv[0], sys.argv[1:], sys.path[0])\nsys.exit(7)")
    result = run("run", path, "--epochs", "3", "-h")
    assert result.returncode == 7
    assert result.stdout.split("\n")[0] == f"__main__ True ['--epochs', '3', '-h'] {os.path.dirname(path)}"


def test_run_shows_the_scripts_own_traceback(script):
    path = script("def f():\n    raise KeyError('mine')\n\nf()")
    result = run("run", path)
    plain = subprocess.run([sys.executable, path], stderr=subprocess.PIPE, encoding="utf-8")
    assert result.returncode == plain.returncode == 1
    assert result.stderr == plain.stderr


def test_run_reaches_processes_that_the_script_starts(script):
    text = """import multiprocessing

def child(queue):
    import poptorch
    queue.put(poptorch.__name__)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
"""
    result = run("run", script(text))
    assert result.stdout.strip() == "softipu.poptorch", result.stderr


def test_devices_lists_the_figures_of_the_machine_model():
    answer = run("devices", "--figures")
    assert answer.returncode == 0 and "GC200" in answer.stdout and "POD16" in answer.stdout.upper()


def test_validate_refuses_a_file_that_is_not_there():
    answer = run("validate", "no-such-file.json")
    assert answer.returncode == 2 and "no-such-file.json" in answer.stderr
