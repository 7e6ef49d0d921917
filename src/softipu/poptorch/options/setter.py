"""Looking up option setters by name, for options that come as text."""

import enum
from typing import TYPE_CHECKING, Any, Callable

from softipu.poptorch import enums

if TYPE_CHECKING:
    from softipu.poptorch.options.model_options import Options

GROUPS = ("Training", "Precision", "TensorLocations", "Distributed", "Jit", "_Popart")
"""Groups of options that may stand before a setter's name."""


def find_setter(options: "Options", dotted: str) -> Callable[..., Any]:
    """The setter of a name such as ``deviceIterations`` or ``Training.gradientAccumulation``.

    Raises:
        AttributeError: no such group or setter.
    """
    owner: Any = options
    *groups, name = dotted.split(".")
    if groups:
        if len(groups) > 1 or groups[0] not in GROUPS:
            raise AttributeError(f"Unknown group of options in {dotted!r}. Groups are {', '.join(GROUPS)}")
        owner = getattr(options, groups[0])
    found = None if name.startswith("_") else getattr(type(owner), name, None)
    if not callable(found):
        raise AttributeError(f"Unknown option {dotted!r}: {type(owner).__name__} has no setter of this name")
    return getattr(owner, name)


def find_enum(name: str) -> "type[enum.Enum]":
    """The enumeration of a name such as ``OutputMode``.

    Raises:
        AttributeError: no such enumeration.
    """
    found = getattr(enums, name, None)
    if not (isinstance(found, type) and issubclass(found, enum.Enum)):
        raise AttributeError(f"PopTorch has no enumeration {name!r}")
    return found
