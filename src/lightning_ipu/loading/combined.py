"""Host batches of several loaders at once: each loader gives a part, and all parts have to have equally many micro-batches."""

from collections.abc import Mapping
from typing import Any, Iterator, Tuple

from lightning_ipu._lightning import Lightning
from lightning_ipu.loading import batching
from lightning_ipu.loading.cutting import Sizes
from lightning_ipu.structures.structure import first_rows


def sizes_of_host_batch(combined: Any, batch: Any, sizes: Sizes, lightning: Lightning) -> Sizes:
    """How a host batch of a CombinedLoader is made up.

    Args:
        combined: the CombinedLoader, not a sequential one.
        batch: what it gave.
        sizes: of full host batches.
        lightning: whose error to raise.

    Raises:
        MisconfigurationException: parts that cannot be cut alike.
    """
    found = []
    for name, loader, part in _parts(combined.iterables, batch):
        own, rows = batching.sizes_of_loader(loader, sizes), first_rows(part)
        if rows is not None and own.micro_rows is not None:
            found.append((name, own, rows))
    if not found or sizes.n_groups == 1:
        return sizes
    first = found[0][1]
    if all((own.micro_rows, rows) == (first.micro_rows, found[0][2]) for _, own, rows in found):
        return first  # cut like a batch of one loader, a short one too
    if all(rows == (own.micro_rows or 0) * own.n_micro_batches for _, own, rows in found):
        return sizes
    given = ", ".join(f"{name} {rows} rows of batch_size {own.micro_rows}" for name, own, rows in found)
    raise lightning.misconfiguration(
        f"The loaders of a CombinedLoader give {given} for one host batch, which has {sizes.n_micro_batches} micro-batches "
        f"(device_iterations {sizes.n_iterations} x accumulation {sizes.n_accumulated} x replicas {sizes.n_replicas}). They would not be "
        "the batches that the CPU takes together. Give each loader a whole number of host batches, or use device_iterations=1 and "
        "accumulate_grad_batches=1."
    )


def _parts(loaders: Any, batch: Any, name: str = "batch") -> Iterator[Tuple[str, Any, Any]]:
    if isinstance(loaders, Mapping):
        for key, loader in loaders.items():
            yield from _parts(loader, batch[key], f"{name}[{key!r}]")
    elif isinstance(loaders, (list, tuple)):
        for place, (loader, part) in enumerate(zip(loaders, batch)):
            yield from _parts(loader, part, f"{name}[{place}]")
    elif batch is not None:
        yield name, loaders, batch
