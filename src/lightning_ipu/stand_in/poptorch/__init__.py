"""``import poptorch`` where there is no Poplar SDK: the software IPU's, under the SDK's name.

`lightning-ipu run` puts the folder above this one on Python's path. After the import `poptorch` and `softipu.poptorch` are the same
module objects, submodules included, so that `isinstance` holds whichever name a class was reached by.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Optional, Sequence

_NAME, _TARGET = "poptorch", "softipu.poptorch"


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers `poptorch.x` with the module `softipu.poptorch.x`."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if not fullname.startswith(_NAME + "."):
            return None
        if importlib.util.find_spec(_TARGET + fullname[len(_NAME) :]) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return importlib.import_module(_TARGET + spec.name[len(_NAME) :])

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the module has run under its own name."""


sys.meta_path.insert(0, _Alias())
sys.modules[_NAME] = importlib.import_module(_TARGET)
