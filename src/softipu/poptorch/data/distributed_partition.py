"""The part of a map-style dataset that one of several processes reads."""

from typing import Iterator, Optional

import torch
from torch.utils.data import Sampler


class DistributedPartition(Sampler):
    """Indices of one process's part of a dataset, the same number of them in every process when incomplete steps are dropped.

    Process p of P reads items p*n to (p+1)*n - 1 of the dataset, where n is a multiple of ``step``. Shuffled, all processes draw the same
    order of the whole dataset for each epoch, from the same seed, and read their parts of it. What no process reads in one epoch,
    because it does not fill a step of all processes, is read in the next.

    Args:
        n_samples: length of the dataset.
        step: samples of one host batch.
        process_id: p, from 0.
        n_processes: P.
        drop_last: give every process whole steps only; otherwise all samples are given out as evenly as possible.
        seed: None keeps the order of the dataset.
    """

    def __init__(self, n_samples: int, step: int, process_id: int, n_processes: int, *, drop_last: bool, seed: Optional[int]) -> None:
        self._n_samples = n_samples
        if drop_last:
            self._length = step * (n_samples // (step * n_processes))
            self._offset = process_id * self._length
            self._n_left_over = n_samples - n_processes * self._length
        else:
            rest = n_samples % n_processes
            self._length = n_samples // n_processes + (process_id < rest)
            self._offset = process_id * (n_samples // n_processes) + min(process_id, rest)
            self._n_left_over = 0
        self._seed = seed
        # Kept as states, not as a generator: old versions of torch cannot pickle those.
        self._generator_state: Optional[torch.Tensor] = None
        self._left_over: Optional[torch.Tensor] = None

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        part = slice(self._offset, self._offset + self._length)
        if self._seed is None:
            return iter(range(self._n_samples)[part])
        return iter(self._next_order(self._seed)[part].tolist())

    def _next_order(self, seed: int) -> torch.Tensor:
        generator = torch.Generator()
        if self._generator_state is None:
            generator.manual_seed(seed)
        else:
            generator.set_state(self._generator_state)
        order = torch.randperm(self._n_samples, generator=generator)
        if self._n_left_over:
            if self._left_over is not None:
                order = _moved_forward(order, self._left_over, generator)
            self._left_over = order[-self._n_left_over :]
        self._generator_state = generator.get_state()
        return order


def _moved_forward(order: torch.Tensor, wanted: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The order with those of ``wanted`` that are among its last ``len(wanted)`` exchanged with random others from before them."""
    is_wanted = torch.zeros(len(order), dtype=torch.bool)
    is_wanted[wanted] = True
    n_front = len(order) - len(wanted)
    late = n_front + is_wanted[order[n_front:]].nonzero().flatten()
    # At least as many as are late, because the front is no shorter than the rest.
    free = (~is_wanted[order[:n_front]]).nonzero().flatten()
    free = free[torch.randperm(len(free), generator=generator)[: len(late)]]
    moved = order.clone()
    moved[free], moved[late] = order[late], order[free]
    return moved
