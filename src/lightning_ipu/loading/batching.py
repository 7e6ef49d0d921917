"""Loaders of host batches: from the user's DataLoader of micro-batches to one that gives what a call of the device takes.

The user's batch_size is the micro-batch B. A host batch has B*R*G*D rows, in the order of the user's sampler; the loader that gives them
is a poptorch.DataLoader with the user's sampler, batch sampler, workers, collate function and generator. One that the user made is used as
it is.
"""

import inspect
from dataclasses import replace
from typing import Any, Iterator, List, Optional, Tuple

from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from lightning_ipu import options as ipu_options
from lightning_ipu._lightning import Lightning
from lightning_ipu.loading.cutting import Sizes
from lightning_ipu.structures.structure import first_rows, joined

_SIZES = "_lightning_ipu_sizes"
_KEPT = (
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
    "persistent_workers",
)


def host_loader(loader: Any, sizes: Sizes, poptorch: Any, given_options: Any, lightning: Lightning, *, trains: bool) -> Any:
    """A loader of host batches.

    Args:
        loader: the user's: a torch DataLoader, a poptorch.DataLoader, or any iterable of batches.
        sizes: D, G and R.
        poptorch: the PopTorch in use.
        given_options: the user's Options.
        lightning: whose warnings to use.
        trains: whether the loader is for training.
    """
    if isinstance(loader, poptorch.DataLoader):
        return _of_the_user(loader, sizes, lightning)
    if not isinstance(loader, DataLoader):
        return loader if sizes.n_micro_batches == 1 else JoinedBatches(loader, sizes)
    if loader.batch_size is None and loader.batch_sampler is None or type(loader).__iter__ is not DataLoader.__iter__:
        # It gives whole batches made elsewhere, or iterates in its own way.
        return loader if sizes.n_micro_batches == 1 else JoinedBatches(loader, sizes)
    micro_rows = loader.batch_size if loader.batch_size is not None else getattr(loader.batch_sampler, "batch_size", None)
    own = Sizes(
        sizes.n_iterations,
        sizes.n_accumulated,
        sizes.n_replicas,
        micro_rows if isinstance(micro_rows, int) else None,
        bool(getattr(loader, "drop_last", False) or getattr(loader.batch_sampler, "drop_last", False)),
        _rows_of(loader),
        sizes.is_split,
        sizes.varies,
    )
    made = _made_again(loader, own, poptorch, given_options, lightning, trains=trains)
    setattr(made, _SIZES, own)
    return made


def sizes_of_loader(loader: Any, default: Sizes) -> Sizes:
    """How the host batches of a loader are made up."""
    found = getattr(loader, _SIZES, None)
    return found if isinstance(found, Sizes) else default


def updates_per_epoch(loader: Any, default: Sizes, n_host_batches: int) -> int:
    """Weight updates in ``n_host_batches`` host batches of ``loader``: D each, fewer in a short one at the end."""
    sizes = sizes_of_loader(loader, default)
    whole = n_host_batches * sizes.n_iterations
    if sizes.n_rows is None or sizes.update_rows is None:
        return whole
    in_all = sizes.n_rows // sizes.update_rows + int(sizes.cut_of_rest(sizes.n_rows % sizes.update_rows) is not None)
    return min(whole, in_all)


def _made_again(loader: DataLoader, sizes: Sizes, poptorch: Any, given_options: Any, lightning: Lightning, *, trains: bool) -> Any:
    kept = {name: getattr(loader, name) for name in _KEPT}
    if loader.num_workers > 0:
        kept["prefetch_factor"] = loader.prefetch_factor
    for name in ("in_order", "pin_memory_device"):
        if getattr(loader, name, None) and name in inspect.signature(DataLoader.__init__).parameters:
            kept[name] = getattr(loader, name)
    drop_last = trains and _drops(sizes, lightning)
    made_from = ipu_options.loader_options(given_options, sizes)
    if isinstance(loader.dataset, IterableDataset):
        return poptorch.DataLoader(made_from, loader.dataset, batch_size=loader.batch_size, drop_last=drop_last or loader.drop_last, **kept)
    inner, counts_indices = _inner(loader.batch_sampler, lightning)
    made = poptorch.DataLoader(made_from, loader.dataset, batch_sampler=inner, drop_last=drop_last, **kept)
    if counts_indices:
        # Lightning reads from this wrapper which samples a prediction is of. torch lets nobody set the attribute afterwards.
        wrapper: Any = type(loader.batch_sampler)
        object.__setattr__(made, "batch_sampler", wrapper(made.batch_sampler))
    return made


def _inner(batch_sampler: Any, lightning: Lightning) -> Tuple[Any, bool]:
    wrapper = getattr(lightning.module("overrides.distributed"), "_IndexBatchSamplerWrapper", None)
    if wrapper is not None and isinstance(batch_sampler, wrapper):
        inner = getattr(batch_sampler, "_batch_sampler", None) or getattr(batch_sampler, "_sampler", None)
        if inner is not None:
            return inner, True
    return batch_sampler, False


def _drops(sizes: Sizes, lightning: Lightning) -> bool:
    """Whether the last, incomplete host batch of training is left out altogether; warns with the number of samples that are."""
    if not sizes.is_rest_known or sizes.n_rows is None or sizes.micro_rows is None or sizes.update_rows is None:
        return False
    rest = sizes.n_rows % (sizes.micro_rows * sizes.n_micro_batches)
    last = rest % sizes.update_rows
    lost = sizes.dropped_of(last)
    if lost:
        lightning.warn(
            f"{lost} of {sizes.n_rows} samples are dropped in every epoch of training: they are fewer than the {sizes.update_rows} of one "
            f"weight update (batch_size {sizes.micro_rows} x replicas {sizes.n_replicas} x accumulation {sizes.n_accumulated}), so the "
            "last update would be incomplete. A data set whose size is divisible loses none; with shuffle=True others are left out in "
            "each epoch."
        )
    return rest == last and sizes.cut_of_rest(last) is None


def _rows_of(loader: Any) -> Optional[int]:
    """Samples of one epoch, if the loader can tell."""
    sampler = getattr(loader, "batch_sampler", None)
    while sampler is not None and not isinstance(sampler, BatchSampler):
        sampler = getattr(sampler, "_batch_sampler", None)
    if sampler is None or type(sampler) is not BatchSampler and type(sampler).__iter__ is not BatchSampler.__iter__:
        return None
    try:
        rows = len(sampler.sampler)  # type: ignore[arg-type]
    except TypeError:
        return None
    return rows - rows % sampler.batch_size if sampler.drop_last else rows


def _of_the_user(loader: Any, sizes: Sizes, lightning: Lightning) -> Any:
    given = loader.options
    of_loader = (given.device_iterations, given.Training.gradient_accumulation, given.replication_factor)
    of_trainer = (sizes.n_iterations, sizes.n_accumulated, sizes.n_replicas)
    if of_loader != of_trainer:
        raise lightning.misconfiguration(
            "The poptorch.DataLoader was made with deviceIterations({}), gradientAccumulation({}) and replicationFactor({}), but the "
            "Trainer needs "
            "{}, {} and {}. Make it with trainer.strategy.training_opts or inference_opts, or give a torch DataLoader.".format(
                *of_loader, *of_trainer
            )
        )
    combined = loader.combinedBatchSize
    if combined is not None:
        setattr(loader, _SIZES, replace(sizes, micro_rows=combined // sizes.n_micro_batches))
    return loader


class JoinedBatches:
    """Batches of any iterable, joined to host batches; a remainder is joined as it is.

    Args:
        batches: the user's iterable.
        sizes: of full host batches; B is that of the first batch.
    """

    def __init__(self, batches: Any, sizes: Sizes) -> None:
        self._batches, self._n = batches, sizes.n_micro_batches
        self.__dict__[_SIZES] = sizes

    def __iter__(self) -> Iterator[Any]:
        waiting: List[Any] = []
        short: Optional[int] = None
        for batch in self._batches:
            short = self._rows_if_short(batch, short)
            waiting.append(batch)
            if len(waiting) == self._n:
                yield joined(waiting)
                waiting = []
        if waiting:
            yield joined(waiting)

    def _rows_if_short(self, batch: Any, before: Optional[int]) -> Optional[int]:
        """Rows of a batch that is shorter than the first one. ValueError: one of another length that is not the last."""
        rows, own = first_rows(batch), self.__dict__[_SIZES]
        if own.micro_rows is None:
            self.__dict__[_SIZES] = replace(own, micro_rows=rows)
        elif rows is not None and (before is not None or rows > own.micro_rows):
            raise ValueError(
                f"The loader gives batches of {own.micro_rows}, then {rows if before is None else before} rows. The {self._n} batches "
                "that a call of the device takes are of one size; only the last of an epoch may be shorter. Give batches of one size, or "
                "use device_iterations=1, accumulate_grad_batches=1 and devices=1."
            )
        return rows if rows is not None and own.micro_rows is not None and rows < own.micro_rows else None

    def __len__(self) -> int:
        """Number of host batches. TypeError: the iterable has no length."""
        return (len(self._batches) + self._n - 1) // self._n

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._batches, name)
