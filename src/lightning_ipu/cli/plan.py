"""`lightning-ipu plan train.py`: what a script's first fit costs on IPUs, and with --search the best layout. Nothing is trained."""

import argparse
import contextlib
import os
import sys
from typing import Any, Callable, Dict, Optional

# What stands after `--` belongs to the script.
AFTER_DASHES = True
FORMATS = ("text", "json", "html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("script", help="path of a script that calls Trainer.fit")
    parser.usage = "lightning-ipu plan script [options] [-- script arguments]"
    parser.add_argument("--system", default="bow-pod16", help="what to plan for, such as bow-pod64; `lightning-ipu devices` lists them")
    parser.add_argument("--search", action="store_true", help="find the best stages, micro-batch, accumulation, recomputation and replicas")
    parser.add_argument("--plan", metavar="FILE", help="price the plan in this file instead of the script's own layout")
    parser.add_argument("--items-per-update", type=int, metavar="N", help="with --search: exactly so many samples in a weight update")
    parser.add_argument("--ops", action="store_true", help="list the ops of the step that PopTorch does not support, and nothing else")
    parser.add_argument("--format", choices=FORMATS, default="text", help="of what is printed")
    parser.add_argument("--output", metavar="FILE", help="write the report there; with --search plan.json lies beside it")
    parser.add_argument("--trace", metavar="FILE", help="write the time line of a weight update there, for ui.perfetto.dev")
    parser.add_argument("--with-weights", action="store_true", help="give parameters memory, for scripts that compute with them before fit")


def run(arguments: argparse.Namespace) -> int:
    from lightning_ipu.planning.rare_collection import rare_collection

    with rare_collection():
        return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    from lightning_ipu import backend

    # A plan is made from the software IPU's capture, whatever runs the steps later.
    os.environ[backend.VARIABLE] = "software"
    from lightning_ipu.planning.quiet import quiet
    from lightning_ipu.planning.script import NeedsWeights, NoFit, first_fit
    from softipu.errors import Error
    from softipu.hardware import find_system

    try:
        system = find_system(arguments.system)
        with quiet():
            backend.poptorch()  # says what runs steps when it is first asked for, and nothing runs here
        with contextlib.redirect_stdout(sys.stderr):  # what the script prints is not the report
            step, notes = first_fit(arguments.script, arguments.args, with_weights=arguments.with_weights)
        for note in dict.fromkeys(notes):
            print(note, file=sys.stderr)
        with quiet():
            return _plan(arguments, step, system)
    except NeedsWeights as error:
        print(f"{error} Planning once more with weights in memory (--with-weights).", file=sys.stderr)
        return _again_with_weights(arguments)
    except (NoFit, Error) as error:
        print(f"lightning-ipu plan: {getattr(error, 'message', error)}", file=sys.stderr)
        return 1
    except FileNotFoundError as error:
        print(f"lightning-ipu plan: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


def _plan(arguments: argparse.Namespace, step: Any, system: Any) -> int:
    from lightning_ipu.planning.plan import planned, unsupported_ops
    from softipu.planner import Space
    from softipu.report.units import counted

    if arguments.ops:
        unsupported = unsupported_ops(step)
        print("\n".join(unsupported) if unsupported else "PopTorch lists every op of the step as supported.")
        return 1 if unsupported else 0

    def replicas(own: Any) -> int:
        if not own.n_ipus > system.n_ipus >= own.n_ipus_per_replica:
            return int(own.replicas)
        most = int(system.n_ipus // own.n_ipus_per_replica)
        print(f"{system.name} has {counted(system.n_ipus, 'IPU')}, so {counted(most, 'replica')} are planned.", file=sys.stderr)
        return most

    def space(own: Any) -> Space:
        # A script that accumulates says how large a batch it trains with.
        says = own.items_per_update if own.gradient_accumulation > 1 else None
        return Space(items_per_update=arguments.items_per_update or says)

    report = planned(step, system, search=arguments.search, plan=arguments.plan, replicas=replicas, space=space, say=_saying(arguments))
    if arguments.search and report.fits:
        _write_plan(arguments, report)
    _write(arguments.output, {"text": report.text, "json": report.json, "html": report.html}[arguments.format])
    if arguments.trace:
        _write(arguments.trace, report.trace)
    return 0 if report.fits else 1


def _saying(arguments: argparse.Namespace) -> Callable[[str], None]:
    """Progress on the terminal, where there is one."""
    if not sys.stderr.isatty():
        return lambda text: None
    return lambda text: print(f"searching: {text}", file=sys.stderr)


def _write(path: Optional[str], text: Callable[[], str]) -> None:
    if path is None:
        sys.stdout.write(text())
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text())


def _write_plan(arguments: argparse.Namespace, report: Any) -> None:
    from softipu.report.plan_file import write_plan

    path = os.path.join(os.path.dirname(arguments.output or ""), "plan.json")
    write_plan(path, report)
    print(f'Wrote {path}: Trainer(strategy=IPUStrategy(plan="{path}"), devices={report.plan.n_ipus}) uses it.', file=sys.stderr)


def _again_with_weights(arguments: argparse.Namespace) -> int:
    """In a new process: the script has left its traces in this one."""
    import subprocess

    command = [
        sys.executable,
        "-m",
        "lightning_ipu.cli",
        "plan",
        "--with-weights",
        "--system",
        arguments.system,
        "--format",
        arguments.format,
    ]
    given: Dict[str, Optional[str]] = {"--plan": arguments.plan, "--output": arguments.output, "--trace": arguments.trace}
    given["--items-per-update"] = None if arguments.items_per_update is None else str(arguments.items_per_update)
    for flag, value in given.items():
        command += [flag, value] if value is not None else []
    command += ["--search"] * arguments.search + ["--ops"] * arguments.ops
    return subprocess.call([*command, arguments.script, "--", *arguments.args])
