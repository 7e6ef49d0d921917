"""Random numbers of the host that a step draws: its Python runs only when it is captured, so they would stay what they were then."""

import random
import sys
from typing import Any, Dict, List

from torch import nn


def states(module: nn.Module) -> Dict[str, Any]:
    """States of the host's random generators by name: Python's, NumPy's, and those that are attributes of ``module``."""
    numpy = sys.modules.get("numpy")
    found: Dict[str, Any] = {"Python's random module": random.getstate()}
    if numpy is not None:
        found["NumPy's random module"] = _of_numpy(numpy.random.get_state())
    for name, value in vars(module).items():
        if isinstance(value, random.Random):
            found[f"self.{name}"] = value.getstate()
        elif numpy is not None and isinstance(value, numpy.random.RandomState):
            found[f"self.{name}"] = _of_numpy(value.get_state())
        elif numpy is not None and isinstance(value, numpy.random.Generator):
            found[f"self.{name}"] = repr(value.bit_generator.state)
    return found


def drawn_from(module: nn.Module, before: Dict[str, Any]) -> List[str]:
    """Names of the generators that have gone on since ``before``."""
    return [name for name, state in states(module).items() if name in before and state != before[name]]


def _of_numpy(state: Any) -> Any:
    return tuple(part.tobytes() if hasattr(part, "tobytes") else part for part in state)
