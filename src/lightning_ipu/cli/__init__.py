"""The command `lightning-ipu`. One file per command; a command's file is imported when it is asked for, so that help starts at once."""

import argparse
import importlib
import sys
from typing import List, Optional, Tuple

# name -> what it does; the file of the same name has `add_arguments(parser)` and `run(arguments) -> exit code`. Where that file says
# AFTER_DASHES, what stands after `--` is not parsed and comes as `arguments.args`.
COMMANDS = {
    "run": "run a script; its `import poptorch` gets the software IPU's where there is no Poplar SDK",
    "plan": "whether a script's model fits on IPUs, how fast it trains there, and with --search the best way to split it",
    "validate": "published runs priced by the machine model, beside what was measured",
    "devices": "the IPUs that accelerator='ipu' would use, and every known IPU and system; with --figures each figure's source",
    "doctor": "what is installed, what would run a step, and what is wrong",
}


def main(argv: Optional[List[str]] = None) -> int:
    """Runs the command line and returns its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="lightning-ipu", description="Lightning on IPUs, real or in software.")
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    rest: Optional[List[str]] = None
    commands = parser.add_subparsers(dest="command", metavar="command")
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name in argv[:1]:
            module = importlib.import_module(f"lightning_ipu.cli.{name}")
            module.add_arguments(command)
            if getattr(module, "AFTER_DASHES", False):
                argv, rest = _cut_at_dashes(argv)
    arguments = parser.parse_args(argv)
    if rest is not None:
        arguments.args = rest
    if arguments.version:
        from lightning_ipu._lightning import own_version

        print(f"lightning-ipu {own_version()}")
        return 0
    if arguments.command is None:
        parser.print_help()
        return 2
    return int(importlib.import_module(f"lightning_ipu.cli.{arguments.command}").run(arguments))


def _cut_at_dashes(argv: List[str]) -> Tuple[List[str], List[str]]:
    at = argv.index("--") if "--" in argv else len(argv)
    return argv[:at], argv[at + 1 :]
