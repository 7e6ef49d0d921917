"""`lightning-ipu validate FILE`: published runs priced by the machine model, beside what was measured."""

import argparse
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file and the format of the answer."""
    parser.add_argument("file", help="published runs, in the format of softipu/hardware/calibration/published.json")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="a table (default) or JSON")


def run(arguments: argparse.Namespace) -> int:
    from softipu.cost.validation.command import validate_output
    from softipu.errors import Error

    try:
        print(validate_output(arguments.file, arguments.format), end="")
    except Error as error:
        print(f"lightning-ipu validate: {error.message}", file=sys.stderr)
        return 2
    return 0
