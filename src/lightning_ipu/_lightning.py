"""Which Lightning: `lightning` or `pytorch_lightning`. The only file that chooses, and the only one that imports either.

The two packages hold two separate class trees: a strategy derived from one is no strategy for the other's Trainer. So whatever
the plug-in derives from Lightning is made once per package (families.py), and every class made knows its package.
"""

import importlib
import importlib.metadata
import importlib.util
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any, List, Optional

# In order of preference where nothing else decides: the first is the name that Lightning's own documentation uses.
PACKAGES = ("lightning.pytorch", "pytorch_lightning")

_trainer_seen_from: List[str] = []


@dataclass(frozen=True)
class Lightning:
    """One of the two packages.

    Attributes:
        package: ``lightning.pytorch`` or ``pytorch_lightning``.
    """

    package: str

    def module(self, path: str) -> ModuleType:
        """The submodule at ``path``, such as ``utilities.exceptions``."""
        return importlib.import_module(f"{self.package}.{path}")

    def name(self, path: str, name: str) -> Any:
        """The object called ``name`` in the submodule at ``path``."""
        return getattr(self.module(path), name)

    @property
    def distribution(self) -> str:
        """What the package is called when it is installed."""
        return self.package.split(".")[0].replace("_", "-")

    @property
    def version(self) -> str:
        """The installed version."""
        return str(importlib.import_module(self.package.split(".")[0]).__version__)

    def misconfiguration(self, message: str) -> Exception:
        """Lightning's own error for flags that do not go together, ready to raise."""
        error: Exception = self.name("utilities.exceptions", "MisconfigurationException")(message)
        return error

    def is_overridden(self, hook: str, instance: Any) -> bool:
        """Whether the user's module or callback defines ``hook`` itself."""
        return bool(self.name("utilities.model_helpers", "is_overridden")(hook, instance))

    def warn(self, message: str) -> None:
        """A warning from the main process."""
        self.name("utilities.rank_zero", "rank_zero_warn")(message)


def own_version() -> str:
    """The version of the plug-in."""
    try:
        return importlib.metadata.version("lightning-ipu")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed as a package)"


def is_imported(package: str) -> bool:
    """Whether the user's process has imported ``package``. A None in its place, which blocks an import, is none."""
    return sys.modules.get(package) is not None


def is_installed(package: str) -> bool:
    """Whether ``package`` could be imported; imports nothing."""
    top = package.split(".")[0]
    blocked = any(name in sys.modules and sys.modules[name] is None for name in (top, package))
    return is_imported(package) or (not blocked and importlib.util.find_spec(top) is not None)


def note_trainer_of(package: str) -> None:
    """Remembers that a Trainer of ``package`` was made: where both packages are imported, the last one used is the user's."""
    _trainer_seen_from[:] = [package]


def chosen() -> Lightning:
    """The package that the user works with: the one imported; of two imported ones, the one whose Trainer was made last.

    Raises:
        ImportError: neither package is installed.
    """
    imported = [package for package in PACKAGES if is_imported(package)]
    if len(imported) > 1 and _trainer_seen_from:
        return Lightning(_trainer_seen_from[0])
    package: Optional[str] = next(iter(imported), None) or next((p for p in PACKAGES if is_installed(p)), None)
    if package is None:
        raise ImportError(
            f"lightning-ipu {own_version()} found neither `lightning` nor `pytorch-lightning` in this environment "
            f"({sys.prefix}). Install one of them: pip install lightning"
        )
    importlib.import_module(package)
    return Lightning(package)
