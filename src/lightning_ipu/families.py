"""The plug-in's classes, derived once from each Lightning package that is in use."""

import types
from dataclasses import dataclass
from typing import Any, Dict, Tuple

from lightning_ipu._lightning import Lightning


@dataclass(frozen=True)
class Family:
    """The classes that serve one Lightning package.

    Attributes:
        lightning: the package.
        accelerator: its IPUAccelerator.
        strategy: its IPUStrategy.
        precision: its IPUPrecision.
    """

    lightning: Lightning
    accelerator: Any
    strategy: Any
    precision: Any


_families: Dict[str, Family] = {}


def family_of(lightning: Lightning) -> Family:
    """The classes for ``lightning``, made at the first call."""
    if lightning.package not in _families:
        # Imported here: these need torch, and the command line must start without it.
        from lightning_ipu.accelerator import AcceleratorBody
        from lightning_ipu.precision import PrecisionBody
        from lightning_ipu.strategy import StrategyBody

        _families[lightning.package] = Family(
            lightning=lightning,
            accelerator=_derive("IPUAccelerator", lightning, AcceleratorBody, ("accelerators", "Accelerator")),
            strategy=_derive("IPUStrategy", lightning, StrategyBody, ("strategies", "ParallelStrategy")),
            precision=_derive("IPUPrecision", lightning, PrecisionBody, ("plugins.precision", "Precision")),
        )
    return _families[lightning.package]


def _derive(name: str, lightning: Lightning, body: type, parent: Tuple[str, str]) -> type:
    names = {"lightning": lightning, "__module__": "lightning_ipu", "__qualname__": name, "__doc__": body.__doc__}
    return types.new_class(name, (body, lightning.name(*parent)), exec_body=lambda namespace: namespace.update(names))
