"""Host batches of several micro-batches, each made by the user's own collate function, as PopTorch makes them.

What such a function does, padding to the longest sample for example, it does to one micro-batch, never to the samples of a whole call.
"""

from typing import Any, Callable, Iterable, List, Sequence

import torch
from torch.utils.data import default_collate

from softipu.errors import Error
from softipu.poptorch.inputs.structure import ConstantSpec, Spec, flatten, unflatten


class HostIndices(List[Any]):
    """The indices of a host batch; ``sizes`` are those of its micro-batches. It goes to worker processes like any list."""

    def __init__(self, batches: Iterable[Sequence[Any]] = ()) -> None:
        parts = [list(batch) for batch in batches]
        super().__init__(index for part in parts for index in part)
        self.sizes = [len(part) for part in parts]

    def __reduce__(self) -> Any:
        return (_again, (list(self), self.sizes))


class InMicroBatches:
    """A dataset that gives the samples of a host batch as one list for each micro-batch.

    Args:
        dataset: map-style.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __getattr__(self, name: str) -> Any:
        if name == "_dataset":  # not yet there while it is unpickled
            raise AttributeError(name)
        return getattr(self._dataset, name)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        return self._dataset[index]

    def __getitems__(self, indices: Sequence[Any]) -> List[List[Any]]:
        """Samples by micro-batch. torch's loader calls this."""
        at_once = getattr(self._dataset, "__getitems__", None)
        samples = iter(at_once(list(indices)) if at_once else [self._dataset[index] for index in indices])
        return [[next(samples) for _ in range(size)] for size in getattr(indices, "sizes", [len(indices)])]


class Collated:
    """Makes a host batch of what ``InMicroBatches`` gives.

    Where the function returns more than tensors, words or numbers for example, which are not joined, it gets all samples at once.

    Args:
        collate: the user's function, for the samples of a micro-batch.
    """

    def __init__(self, collate: Callable[[List[Any]], Any]) -> None:
        self._collate = collate

    def __call__(self, micro_batches: List[List[Any]]) -> Any:
        batches = [self._collate(samples) for samples in micro_batches]
        if len(batches) > 1 and any(_has_constants(flatten(batch)[1]) for batch in batches):
            return self._collate([sample for samples in micro_batches for sample in samples])
        return joined(batches)


def is_own(collate: Any) -> bool:
    """Whether a collate function may do more than stack samples, so that it matters how many it gets."""
    return collate is not default_collate


def joined(batches: Sequence[Any]) -> Any:
    """Micro-batches one after another: tensors along dimension 0, in any structure.

    Raises:
        Error: batches of different structures or shapes.
    """
    if len(batches) == 1:
        return batches[0]
    taken = [flatten(batch) for batch in batches]
    tensors, spec = taken[0]
    if any(len(others) != len(tensors) for others, _ in taken):
        raise Error("The micro-batches of a host batch have different numbers of tensors, so they cannot be joined. Collate them alike.")
    rows = []
    for parts in zip(*(tensors for tensors, _ in taken)):
        shapes = [list(part.shape) for part in parts]
        if not shapes[0] or any(shape[1:] != shapes[0][1:] for shape in shapes):
            raise Error(
                f"The micro-batches of a host batch cannot be joined along dimension 0: collate_fn made tensors of shapes {shapes}. A "
                "compiled model takes one shape, so pad all of them to the same."
            )
        rows.append(torch.cat(parts))
    return unflatten(spec, rows)


def _has_constants(spec: Spec) -> bool:
    """Whether there is something besides tensors and None."""
    return isinstance(spec, ConstantSpec) and spec.value is not None or any(map(_has_constants, spec.children().values()))


def _again(indices: List[Any], sizes: List[int]) -> HostIndices:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return HostIndices(indices[start : start + size] for start, size in zip(starts, sizes))
