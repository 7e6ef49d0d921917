"""`lightning-ipu run script.py args`: the script as `python script.py args` would run it, with `import poptorch` working.

The interpreter is replaced by a new one that runs the script, so sys.argv, `__main__`, exit codes, signals and tracebacks are Python's
own. The stand-in for poptorch comes through PYTHONPATH, which processes that the script starts inherit.
"""

import argparse
import os
import subprocess
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", dest="module", action="store_true", help="the name is a module's, as in `python -m name`")
    parser.add_argument("script", help="path of the script, or name of the module")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the script")


def run(arguments: argparse.Namespace) -> int:
    from lightning_ipu import backend

    environment = dict(os.environ)
    # The SDK's poptorch imports torch and takes seconds; whether it is there can be seen without importing it.
    forced = environment.get(backend.VARIABLE, "").strip().lower()
    if forced == "software" or (forced != "sdk" and backend.sdk_location() is None):
        inherited = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
        environment["PYTHONPATH"] = os.pathsep.join([backend.stand_in_folder(), *inherited])
    target = ["-m", arguments.script] if arguments.module else [arguments.script]
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    command = [sys.executable, *flags, *target, *arguments.args]
    if os.name == "nt":
        return subprocess.call(command, env=environment)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, command, environment)
