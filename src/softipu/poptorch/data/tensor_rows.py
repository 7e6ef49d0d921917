"""Batches of a TensorDataset, taken from its tensors at once instead of row by row."""

from typing import Iterable, Iterator, List, Optional, Sequence

import torch
from torch.utils.data import DataLoader, TensorDataset, default_collate


def batches_at_once(loader: DataLoader) -> Optional[Iterator[List[torch.Tensor]]]:
    """An iterator that gives what the loader's own would give, or None when only the loader's own will do.

    Taking a row of a tensor and stacking the rows again costs microseconds a row; indexing with all rows of the batch copies the same
    bytes, and nothing else. Only for stock parts whose joint effect is known: a subclass or another collate function may do anything.
    """
    is_stock = type(loader.dataset) is TensorDataset and loader.collate_fn is default_collate
    if not is_stock or loader.num_workers > 0 or loader.pin_memory or loader.batch_sampler is None:
        return None
    # torch's iterator draws a seed for its workers, also without any: programs get the same numbers afterwards.
    torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
    return _batches(loader.dataset.tensors, loader.batch_sampler)  # type: ignore[attr-defined]


def _batches(tensors: Sequence[torch.Tensor], batch_sampler: Iterable[Sequence[int]]) -> Iterator[List[torch.Tensor]]:
    for indices in batch_sampler:
        # Indexing, unlike index_select, takes negative indices as single rows do.
        rows = torch.as_tensor(indices, dtype=torch.int64)
        yield [tensor[rows] for tensor in tensors]
