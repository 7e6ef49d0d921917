"""`lightning-ipu doctor`: what is installed, what would run a step, and what is wrong. Exit code 1 if something is."""

import argparse
import importlib
import importlib.metadata
import logging
import os
import platform
import sys
from typing import List, Tuple

_VARIABLES = ("LIGHTNING_IPU_BACKEND", "POPTORCH_IPU_MODEL", "POPTORCH_CACHE_DIR", "POPTORCH_LOG_LEVEL", "POPTORCH_DEFAULT_OPTIONS")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None: everything is looked at."""


def run(arguments: argparse.Namespace) -> int:
    rows, problems = _installed()
    for check in (_backend, _trainers, _step):
        more, wrong = check()
        rows += more
        problems += wrong
    rows += [(name, os.environ[name]) for name in _VARIABLES if name in os.environ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")
    for problem in problems:
        print(f"\nPROBLEM: {problem}")
    if not problems:
        print("\nNo problem found.")
    return 1 if problems else 0


def _installed() -> Tuple[List[Tuple[str, str]], List[str]]:
    rows = [("python", f"{platform.python_version()} ({sys.executable})")]
    for name in ("lightning-ipu", "torch", "lightning", "pytorch-lightning", "torchmetrics"):
        try:
            rows.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            rows.append((name, "not installed"))
    return rows, []


def _backend() -> Tuple[List[Tuple[str, str]], List[str]]:
    from lightning_ipu import backend

    try:
        chosen = backend.choose()
    except (ImportError, ValueError) as error:
        return [("backend", "none")], [str(error)]
    return [("backend", f"{chosen.description}: {chosen.reason}"), ("Poplar SDK", backend.sdk_location() or "not found")], []


def _trainers() -> Tuple[List[Tuple[str, str]], List[str]]:
    from lightning_ipu._lightning import PACKAGES, is_installed

    rows, problems = [], []
    for package in PACKAGES:
        if not is_installed(package):
            continue
        logging.getLogger(package).setLevel(logging.ERROR)
        try:
            trainer = importlib.import_module(package).Trainer(accelerator="ipu", devices=1, logger=False, enable_checkpointing=False)
            rows.append((f"{package}.Trainer", f"accelerator='ipu' gives {type(trainer.strategy).__name__}"))
        except Exception as error:  # noqa: BLE001  whatever it is, it is the finding
            rows.append((f"{package}.Trainer", "fails"))
            problems.append(f"{package}.Trainer(accelerator='ipu') fails: {type(error).__name__}: {error}")
    if not rows:
        problems.append("Neither lightning nor pytorch-lightning is installed: pip install lightning")
    return rows, problems


def _step() -> Tuple[List[Tuple[str, str]], List[str]]:
    """One training step of one parameter, to see that a step can be compiled and run."""
    import torch

    from lightning_ipu import backend

    class OneWeight(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return backend.poptorch().identity_loss((self.weight * x).sum(), "sum")

    try:
        poptorch = backend.poptorch()
        model = OneWeight()
        executor = poptorch.trainingModel(model, poptorch.Options(), torch.optim.SGD(model.parameters(), lr=0.5))
        executor(torch.ones(1))
        executor.copyWeightsToHost()
        weight = float(model.weight.detach())
        executor.destroy()
    except Exception as error:  # noqa: BLE001  whatever it is, it is the finding
        return [("one step", "fails")], [f"A training step of one weight fails: {type(error).__name__}: {error}"]
    wrong = [] if abs(weight - 0.5) < 1e-6 else [f"A step of SGD from 1.0 with gradient 1 and lr 0.5 gave {weight}, not 0.5."]
    return [("one step", f"1.0 - 0.5 * 1 = {weight:g}")], wrong
