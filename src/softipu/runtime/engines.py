"""The engines by name, imported when asked for."""

import importlib
from typing import Dict, Tuple

from softipu.errors import Error
from softipu.runtime.engine import Engine, EngineSettings

# name: (module, class)
_ENGINES: Dict[str, Tuple[str, str]] = {
    "interpreter": ("softipu.runtime.interpreter", "Interpreter"),
    "compiled": ("softipu.runtime.compiled.engine", "CompiledEngine"),
}
NAMES: Tuple[str, ...] = tuple(_ENGINES)


def make_engine(name: str, settings: EngineSettings = EngineSettings()) -> Engine:  # noqa: B008 - frozen
    """The engine of that name.

    Raises:
        Error: no engine of that name.
        CannotCompile: it does not work on this machine; the message says why.
    """
    if name not in _ENGINES:
        raise Error(f"Unknown engine {name!r}. Allowed: {', '.join(NAMES)}.")
    module, kind = _ENGINES[name]
    engine: Engine = getattr(importlib.import_module(module), kind)(settings)
    return engine
