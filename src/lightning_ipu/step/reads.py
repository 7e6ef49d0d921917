"""Values that a captured step rests on, asked before every call whether they are still those of the capture."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from lightning_ipu.live.numbers import Place

PLAIN = (bool, int, float, complex, str, bytes, type(None))
MISSING = object()
# A container with more is guarded by its identity and length.
_MOST_LEAVES = 300


@dataclass(frozen=True)
class Read:
    """A value that the captured step rests on.

    Attributes:
        owner: the object that has it.
        name: of the attribute.
        label: as the user would write it, such as ``self.encoder.rate``.
        fingerprint: of the value at capture; see ``fingerprint_of``.
        place: the line that read it.
    """

    owner: Any
    name: str
    label: str
    fingerprint: Any
    place: Optional[Place]

    @property
    def key(self) -> Any:
        """The name of the value among live numbers."""
        return ("attribute", id(self.owner), self.name)

    def current(self) -> Any:
        """The value that the object has now, or a mark that it has none."""
        found = self.owner.__dict__.get(self.name, MISSING)
        return getattr(self.owner, self.name, MISSING) if found is MISSING else found

    def holds(self) -> bool:
        """Whether the value is still the one of the capture."""
        value = self.current()
        if type(value) in PLAIN:
            return bool(self.fingerprint[1] is value or fingerprint_of(value) == self.fingerprint)
        return bool(fingerprint_of(value) == self.fingerprint)


class Reads:
    """The reads of one capture, asked before every call whether they still hold."""

    def __init__(self, reads: Sequence[Read]) -> None:
        # Plain values are the same objects unless somebody has set the attribute again, which is a cheap question.
        self._plain: List[Tuple[Dict[str, Any], str, Any, Read]] = []
        self._others: List[Read] = []
        for read in reads:
            value = read.owner.__dict__.get(read.name, MISSING)
            is_plain = (type(value) in PLAIN or (value is MISSING and not hasattr(type(read.owner), read.name))) and read.holds()
            if is_plain:
                self._plain.append((read.owner.__dict__, read.name, value, read))
            else:
                self._others.append(read)

    def first_changed(self) -> Optional[Read]:
        """One that does not hold any more, or None."""
        for attributes, name, value, read in self._plain:
            if attributes.get(name, MISSING) is not value and not read.holds():
                return read
        return next((read for read in self._others if not read.holds()), None)


def fingerprint_of(value: Any) -> Any:
    """Something that is equal as long as a step that reads ``value`` would do the same: content of plain values and containers,
    identity and version of tensors, identity of the rest."""
    if type(value) in PLAIN:
        return (type(value), value if value == value else "nan")
    if isinstance(value, torch.Tensor):
        return ("tensor", id(value), value._version)
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        count = [0]
        content = _content(value, count)
        return content if count[0] <= _MOST_LEAVES else (type(value), id(value), len(value))
    return ("object", id(value))


def _content(value: Any, count: List[int]) -> Any:
    count[0] += 1
    if count[0] > _MOST_LEAVES:
        return None
    if isinstance(value, dict):
        return (type(value), tuple((key, _content(item, count)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(_content(item, count) for item in value))
    if isinstance(value, (set, frozenset)):
        return (type(value), frozenset(item if type(item) in PLAIN else id(item) for item in value))
    return fingerprint_of(value)
