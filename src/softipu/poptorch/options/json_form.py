"""Options as JSON: ``{"setter": argument, "Group.setter": [argument, ...]}``."""

import json
from typing import TYPE_CHECKING, Any

from softipu.poptorch.options.setter import find_enum, find_setter

if TYPE_CHECKING:
    from softipu.poptorch.options.model_options import Options


def _value(given: Any) -> Any:
    """Strings such as "OutputMode.All" become the member; all else stays as it is."""
    if isinstance(given, str) and given.count(".") == 1:
        kind, member = given.split(".")
        try:
            enumeration = find_enum(kind)
        except AttributeError:
            return given  # a file name, say
        if member not in enumeration.__members__:
            raise AttributeError(f"{kind} has no member {member!r}. Members are {', '.join(enumeration.__members__)}")
        return enumeration[member]
    return given


def apply(options: "Options", text: str) -> None:
    """Call the setters that a JSON object names.

    Raises:
        AttributeError: no such setter or enumeration member.
        ValueError: no JSON, or no object.
    """
    settings = json.loads(text)
    if not isinstance(settings, dict):
        raise ValueError(f"Options in JSON are an object with setters as names, given {text!r}")
    for name, given in settings.items():
        setter = find_setter(options, name)
        setter(*map(_value, given if isinstance(given, list) else [given]))
