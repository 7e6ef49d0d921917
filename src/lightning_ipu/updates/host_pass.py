"""A pass over training data without updates, on the host: what StochasticWeightAveraging does for BatchNorm at the end.

Its statistics depend on how many batches came before, which no compiled step can ask; and one pass is no training.
"""

from typing import Any, Callable, Sequence

import torch

from lightning_ipu.loading.cutting import Sizes
from lightning_ipu.structures.structure import first_rows, mapped


def run(step: Callable[..., Any], args: Sequence[Any], sizes: Sizes) -> Any:
    """Calls ``step`` for each batch that an equivalent CPU run would have in a host batch; returns what the last call did."""
    batch, *rest = args
    rows = first_rows(batch)
    size = rows if rows is None or sizes.micro_rows is None else sizes.micro_rows * sizes.n_replicas
    returned = None
    with torch.no_grad():
        for start in range(0, rows or 1, size or 1):
            returned = step(mapped(lambda leaf, start=start: _rows(leaf, rows, start, size), batch), *rest)  # type: ignore[misc]
    return returned


def _rows(leaf: Any, rows: Any, start: int, size: Any) -> Any:
    is_cut = isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[0] == rows
    return leaf[start : start + size] if is_cut else leaf
