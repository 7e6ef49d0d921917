"""`lightning-ipu devices`: what accelerator="ipu" would use here, and all IPUs and systems that the machine model knows."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which question is asked."""
    parser.add_argument(
        "--figures", action="store_true", help="list every figure of the IPUs and systems with its source, and nothing else"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the figures: a table (default) or JSON")


def run(arguments: argparse.Namespace) -> int:
    if arguments.figures:
        from softipu.report.devices import devices_output

        print(devices_output(arguments.format), end="")
        return 0
    from softipu.report.devices import overview_lines

    _say_what_runs_here()
    print("\nWhat `lightning-ipu plan --system NAME` and `lightning-ipu validate` know; --figures gives every figure with its source:\n")
    print("\n".join(overview_lines()))
    return 0


def _say_what_runs_here() -> None:
    from lightning_ipu import backend
    from lightning_ipu.device_count import ALLOWED

    chosen = backend.choose()
    print(f"accelerator='ipu' runs on {chosen.description}: {chosen.reason}")
    if chosen.name == "software":
        print(f"devices: {', '.join(str(n) for n in ALLOWED)} (each a software IPU in this process; 'auto' takes 1)")
        return
    poptorch = backend.poptorch()
    attached = [n for n in ALLOWED if poptorch.ipuHardwareIsAvailable(n)]
    print(f"devices: {', '.join(str(n) for n in attached) or 'none attached; the IPU Model runs'}")
