"""Where a model may be cut: the modules at whose first op a stage can begin."""

from dataclasses import dataclass
from typing import AbstractSet, Dict, List, Sequence, Tuple

from softipu.graph.origin import Origin


@dataclass(frozen=True)
class Cut:
    """A place where a stage may begin.

    Attributes:
        path: of the outermost module whose first op this is; "" for the first op of all.
        first: index of that op among the forward ops.
    """

    path: str
    first: int


def cut_points(forward: Sequence[Origin], containers: AbstractSet[str] = frozenset()) -> Tuple[Cut, ...]:
    """The cuts of a model, in the order of the forward pass; the first is at its first op.

    A module is left out when ops of other modules run between its own: a block that it begins would begin again in the middle of
    another stage.

    Args:
        forward: origins of the forward ops, in the order that they run.
        containers: modules that are never called, such as lists of modules, at which no block can begin.
    """
    found: Dict[int, str] = {}
    for path, first in _unbroken(forward).items():
        if first and path not in containers and (first not in found or len(path) < len(found[first])):
            found[first] = path
    return (Cut("", 0), *(Cut(path, first) for first, path in sorted(found.items())))


def repeated_modules(forward: Sequence[Origin]) -> Tuple[str, ...]:
    """The layers of a model: members, called by number, of its longest lists of modules; outermost lists only.

    Their outputs are what a stage keeps that computes activations again.
    """
    lists: Dict[str, Dict[str, int]] = {}
    for index, origin in enumerate(forward):
        parts = origin.module.split(".")
        for depth, part in enumerate(parts):
            if part.isdigit():
                lists.setdefault(".".join(parts[:depth]), {}).setdefault(".".join(parts[: depth + 1]), index)
                break
    if not lists:
        return ()
    longest = max(map(len, lists.values()))
    unbroken = _unbroken(forward)
    members = [(first, path) for found in lists.values() if 2 * len(found) > longest for path, first in found.items()]
    return tuple(path for first, path in sorted(members) if path in unbroken)


def _unbroken(forward: Sequence[Origin]) -> Dict[str, int]:
    """Modules between whose first and last op no other module's op runs, with the index of the first."""
    spans: Dict[str, List[int]] = {}  # path -> first op, last op, number of ops
    for index, origin in enumerate(forward):
        path = origin.module
        while path:
            span = spans.setdefault(path, [index, index, 0])
            span[1] = index
            span[2] += 1
            path = path.rpartition(".")[0]
    return {path: first for path, (first, last, count) in spans.items() if last - first + 1 == count}
