"""PopTorch's public names as they stand in public_api.txt."""

import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from softipu import poptorch

EFFORTS = ("easy", "capture", "partial", "ignore", "report")
_LINE = re.compile(r"^(?P<name>[\w.]+)(?P<signature>\(.*\))?(?: = (?P<members>.*?))? (?P<effort>\w+)$")
Parameters = List[Tuple[str, Any, Any]]

# Attributes that only an object has.
OF_OBJECTS = {"DataLoader.options": lambda: poptorch.DataLoader(poptorch.Options(), [0.0])}


@dataclass(frozen=True)
class PublicName:
    """One line of the list.

    Attributes:
        name: below ``poptorch``.
        parameters: (name, kind, default) of each, without self; None for what is no function.
        members: of an enumeration, with their values, None for values that are not told.
        effort: what a software runtime has to do for it.
    """

    name: str
    parameters: Optional[Parameters]
    members: Optional[Dict[str, Optional[int]]]
    effort: str


def listed() -> List[PublicName]:
    """All names of the list."""
    lines = (Path(__file__).parent / "public_api.txt").read_text(encoding="utf-8").splitlines()
    return [_parse(line) for line in lines if line and not line.startswith("#")]


def find(name: str) -> Any:
    """What poptorch has under a dotted name. AttributeError: nothing."""
    found: Any = poptorch
    if name in OF_OBJECTS:
        return getattr(OF_OBJECTS[name](), name.rpartition(".")[2])
    for part in name.split("."):
        found = inspect.getattr_static(found, part) if isinstance(found, type) else getattr(found, part)
    return found


def parameters_of(found: Any, *, is_method: bool) -> Parameters:
    """Parameters of a function, method or class, without self."""
    if isinstance(found, staticmethod):
        found, is_method = found.__func__, False
    if isinstance(found, type):
        found, is_method = found.__init__, True
    parameters = list(inspect.signature(found).parameters.values())
    return _plain(parameters[1:] if is_method else parameters)


def _parse(line: str) -> PublicName:
    match = _LINE.match(line)
    assert match is not None and match["effort"] in EFFORTS, f"This line is not understood: {line}"
    parameters = None
    if match["signature"] is not None:
        scope: Dict[str, Any] = {}
        exec(f"def f{match['signature']}: ...", dict(vars(poptorch)), scope)
        parameters = _plain(list(inspect.signature(scope["f"]).parameters.values()))
    members = None
    if match["members"] is not None:
        pairs = [item.split(" ") for item in match["members"].split(", ")]
        members = {pair[0]: int(pair[1]) if len(pair) > 1 else None for pair in pairs}
    return PublicName(match["name"], parameters, members, match["effort"])


def _plain(parameters: List[inspect.Parameter]) -> Parameters:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)  # their names cannot be used by a caller
    return [("" if p.kind in variadic else p.name, p.kind, p.default) for p in parameters]
