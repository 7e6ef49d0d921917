"""A user's script, run unchanged up to its first Trainer.fit, to see what it would train.

Whatever accelerator the script asks for becomes "ipu", and parameters get no memory: a model of billions of weights is planned on a laptop.
"""

import contextlib
import functools
import os
import runpy
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from lightning_ipu import _register
from lightning_ipu._lightning import PACKAGES, Lightning, is_imported
from lightning_ipu.device_count import ALLOWED
from lightning_ipu.planning.quiet import quiet
from lightning_ipu.step.dry_run import DryStep, dry_fit

_HALF = {"bf16-mixed": "16-mixed", "bf16": "16-mixed", "bf16-true": "16-true", "64-true": "32-true", "64": "32-true", 64: "32-true"}


class _FirstFit(BaseException):
    """The script has called Trainer.fit."""

    def __init__(self, step: DryStep) -> None:
        super().__init__()
        self.step = step


class NoFit(Exception):
    """The script ended without a call of Trainer.fit."""


class NeedsWeights(Exception):
    """The script computes with its weights before Trainer.fit, so they need memory."""


def first_fit(script: str, arguments: Sequence[str], *, with_weights: bool = False) -> Tuple[DryStep, List[str]]:
    """What ``script`` would train first, and what was changed on the way, as sentences.

    Args:
        script: path.
        arguments: of the script, as on its command line.
        with_weights: give parameters their memory and values.

    Raises:
        NoFit: the script ends before.
        NeedsWeights: without weights, the script fails on one of them; the cause is its own error.
        OSError: the script cannot be read; any other error is the script's own.
    """
    notes: List[str] = []
    if not os.path.isfile(script):
        raise FileNotFoundError(2, "No such file", script)
    with _trainers_stop_at_fit(notes), _argv(script, arguments), contextlib.nullcontext() if with_weights else weightless():
        try:
            runpy.run_path(script, run_name="__main__")
        except _FirstFit as found:
            return found.step, notes
        except SystemExit as error:
            raise NoFit(f"{script} left with exit code {error.code} before it called Trainer.fit.") from error
        except Exception as error:
            if not with_weights and "meta" in str(error):
                raise NeedsWeights(f"{script} computes with its weights before Trainer.fit ({type(error).__name__}: {error}).") from error
            raise
    raise NoFit(f"{script} ended and never called Trainer.fit, so there is nothing to plan.")


@contextlib.contextmanager
def _argv(script: str, arguments: Sequence[str]) -> Iterator[None]:
    """What a script sees that is started by `python script arguments`."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path


@contextlib.contextmanager
def weightless() -> Iterator[None]:
    """Parameters made meanwhile have shapes and types, but no memory and no values."""
    original = torch.nn.Parameter.__new__

    def without_memory(cls: Any, data: Optional[torch.Tensor] = None, requires_grad: bool = True) -> Any:
        if isinstance(data, torch.Tensor) and not data.is_meta:
            with torch.no_grad():
                data = torch.empty_strided(data.shape, data.stride(), dtype=data.dtype, device="meta")
        return original(cls, data, requires_grad)

    torch.nn.Parameter.__new__ = without_memory  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.nn.Parameter.__new__ = original  # type: ignore[method-assign]


@contextlib.contextmanager
def _trainers_stop_at_fit(notes: List[str]) -> Iterator[None]:
    """The Trainer of every Lightning package that is or will be imported."""
    undo: List[Callable[[], None]] = []

    def change(lightning: Lightning) -> None:
        trainer = lightning.name("trainer.trainer", "Trainer")
        for name, made in (
            ("__init__", _on_ipus),
            ("fit", _stopping),
            ("validate", _skipping),
            ("test", _skipping),
            ("predict", _skipping),
        ):
            original = getattr(trainer, name)
            setattr(trainer, name, made(original, name, notes))
            undo.append(lambda trainer=trainer, name=name, original=original: setattr(trainer, name, original))  # type: ignore[misc]

    for package in PACKAGES:
        if is_imported(package):
            change(Lightning(package))
    _register.after_registering.append(change)
    try:
        yield
    finally:
        _register.after_registering.remove(change)
        for action in undo:
            action()


def _stopping(original: Callable[..., Any], name: str, notes: List[str]) -> Callable[..., Any]:
    @functools.wraps(original)
    def fit(trainer: Any, *args: Any, **kwargs: Any) -> None:
        with quiet():
            raise _FirstFit(dry_fit(original, trainer, *args, **kwargs))

    return fit


def _skipping(original: Callable[..., Any], name: str, notes: List[str]) -> Callable[..., Any]:
    @functools.wraps(original)
    def skipped(trainer: Any, *args: Any, **kwargs: Any) -> List[Any]:
        notes.append(f"Trainer.{name} before Trainer.fit was left out.")
        return []

    return skipped


def _on_ipus(original: Callable[..., None], name: str, notes: List[str]) -> Callable[..., None]:
    # Signatures stay: LightningCLI makes its arguments of them.
    @functools.wraps(original)
    def __init__(trainer: Any, *args: Any, **kwargs: Any) -> None:
        for flag, now in _changes(kwargs).items():
            if flag in kwargs:
                notes.append(f"Trainer({flag}={kwargs[flag]!r}) was taken as {now!r}.")
            kwargs[flag] = now
        with quiet():
            original(trainer, *args, **kwargs)

    return __init__


def _changes(flags: Dict[str, Any]) -> Dict[str, Any]:
    """What has to be other than the script says, for a Trainer on IPUs."""
    from lightning_ipu.strategy import StrategyBody

    found: Dict[str, Any] = {}
    if flags.get("precision") in _HALF:
        found["precision"] = _HALF[flags["precision"]]
    strategy = flags.get("strategy", "auto")
    if flags.get("accelerator") == "ipu" or isinstance(strategy, StrategyBody) or strategy == "ipu":
        return found
    found["accelerator"] = "ipu"
    if strategy not in ("auto", None):
        found["strategy"] = "auto"
    devices = flags.get("devices", 1)
    count = len(devices) if isinstance(devices, (list, tuple)) else devices
    if count not in ALLOWED:
        found["devices"] = 1
    for flag, neutral in (("num_nodes", 1), ("sync_batchnorm", False), ("plugins", None)):
        if flags.get(flag, neutral) != neutral:
            found[flag] = neutral
    return found
