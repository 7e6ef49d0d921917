"""`lightning-ipu devices`: what accelerator="ipu" would use here."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None: the answer depends on the machine alone."""


def run(arguments: argparse.Namespace) -> int:
    from lightning_ipu import backend
    from lightning_ipu.device_count import ALLOWED

    chosen = backend.choose()
    print(f"accelerator='ipu' runs on {chosen.description}: {chosen.reason}")
    if chosen.name == "software":
        print(f"devices: {', '.join(str(n) for n in ALLOWED)} (each a software IPU in this process; 'auto' takes 1)")
        return 0
    poptorch = backend.poptorch()
    attached = [n for n in ALLOWED if poptorch.ipuHardwareIsAvailable(n)]
    print(f"devices: {', '.join(str(n) for n in attached) or 'none attached; the IPU Model runs'}")
    return 0
