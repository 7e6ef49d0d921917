"""Constructor arguments of PopTorch's optimizers: None means that it was not given."""

from typing import Any, Dict, Iterable, List, Optional

import torch

from softipu.poptorch.optim.variable_attributes import VariableAttributes


def given(arguments: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments that are not None: torch's own defaults stay in force for the others, whatever its version."""
    return {name: value for name, value in arguments.items() if value is not None}


def or_default(value: Optional[Any], default: Any) -> Any:
    """``value`` if it was given."""
    return default if value is None else value


def accumulator_type(value: Optional[torch.dtype]) -> torch.dtype:
    """Storage of an accumulator, float32 unless given. AssertionError: neither float16 nor float32."""
    assert value in (None, torch.float16, torch.float32), f"Accumulation types must be either torch.float32 or torch.float16, not {value}."
    return torch.float32 if value is None else value


def variable_attributes(explicit: Iterable[str], optimizer: torch.optim.Optimizer, extra: List[str]) -> VariableAttributes:
    """What was given explicitly is variable; allowed are the group defaults and ``extra``."""
    return VariableAttributes(list(explicit), list(optimizer.defaults) + extra)
