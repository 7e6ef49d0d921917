"""Train a LightningModule on Graphcore IPUs, real or in software: ``Trainer(accelerator="ipu", devices=N)``.

Importing this package, before or after Lightning, teaches the Trainer of `lightning` and of `pytorch_lightning` what
``accelerator="ipu"`` means. ``lightning_ipu.poptorch`` is PopTorch: the Poplar SDK's own where there is an IPU, the software
IPU's otherwise.
"""

from typing import TYPE_CHECKING, Any, List

from lightning_ipu import _register

if TYPE_CHECKING:
    from lightning_ipu.accelerator import AcceleratorBody as IPUAccelerator
    from lightning_ipu.planning.plan import plan
    from lightning_ipu.precision import PrecisionBody as IPUPrecision
    from lightning_ipu.strategy import StrategyBody as IPUStrategy
    from softipu import poptorch as poptorch  # its types; which of the two runs is decided by backend.py

__all__ = ["IPUAccelerator", "IPUPrecision", "IPUStrategy", "__version__", "plan", "poptorch"]

_CLASSES = {"IPUAccelerator": "accelerator", "IPUStrategy": "strategy", "IPUPrecision": "precision"}

_register.install()


def __getattr__(name: str) -> Any:
    # Lazy, because the classes depend on the Lightning package in use and all of them need torch.
    if name in _CLASSES:
        from lightning_ipu._lightning import chosen
        from lightning_ipu.families import family_of

        return getattr(family_of(chosen()), _CLASSES[name])
    if name == "poptorch":
        from lightning_ipu import backend

        return backend.poptorch()
    if name == "plan":
        from lightning_ipu.planning.plan import plan

        return plan
    if name == "__version__":
        from lightning_ipu._lightning import own_version

        return own_version()
    raise AttributeError(f"module 'lightning_ipu' has no attribute {name!r}; it has {', '.join(sorted(__all__))}")


def __dir__() -> List[str]:
    return sorted(__all__)
