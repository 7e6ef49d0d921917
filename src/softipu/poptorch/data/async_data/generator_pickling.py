"""Pickling of torch.Generator, which a shuffling DataLoader holds.

Old versions of torch cannot do it at all. Newer ones pickle the state as a tensor, which multiprocessing moves into shared memory that
is gone, with the temporary tensor, before the new process gets hold of it. Here the state travels as bytes.
"""

import copyreg
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import IO, Any, Tuple

import torch


def make_generators_picklable() -> None:
    """Teach multiprocessing's pickler, which hands over the arguments of a process."""
    ForkingPickler.register(torch.Generator, _reduced)


def pickled_to(file: IO[bytes], thing: Any) -> None:
    """Pickle into a file; tensors go into it by value."""
    pickler = pickle.Pickler(file, protocol=4)
    pickler.dispatch_table = copyreg.dispatch_table.copy()
    pickler.dispatch_table[torch.Generator] = _reduced
    pickler.dump(thing)
    file.flush()


def _reduced(generator: torch.Generator) -> Tuple[Any, ...]:
    return _generator_with_state, (bytes(generator.get_state().tolist()),)


def _generator_with_state(state: bytes) -> torch.Generator:
    generator = torch.Generator()
    generator.set_state(torch.tensor(list(state), dtype=torch.uint8))
    return generator
