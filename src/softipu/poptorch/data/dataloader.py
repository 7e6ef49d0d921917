"""``poptorch.DataLoader``: a torch DataLoader whose batches are host batches, the samples of one call of the device."""

import copy
from typing import Any, Dict, Iterable, Iterator, Optional, Sequence

import torch
from torch.utils.data import BatchSampler, IterableDataset

from softipu.errors import Error
from softipu.poptorch.data.async_data import AsynchronousDataAccessor
from softipu.poptorch.data.distributed_partition import DistributedPartition
from softipu.poptorch.data.host_batches import HostBatches, MergedBatches, are_host_batches, are_merged, rows_of
from softipu.poptorch.data.micro_batches import Collated, InMicroBatches, is_own
from softipu.poptorch.data.tensor_rows import batches_at_once
from softipu.poptorch.enums import DataLoaderMode
from softipu.poptorch.log import logger
from softipu.poptorch.options import Options


class DataLoader(torch.utils.data.DataLoader):
    """Gives host batches of batch_size x device iterations x gradient accumulation x replicas / input group size rows.

    Args:
        options: what the model is compiled with; frozen from now on.
        dataset: map-style or iterable-style.
        batch_size: micro-batch size; None passes the dataset's items through as they are.
        shuffle: a new order for each epoch.
        num_workers: worker processes that load batches.
        drop_last: leave out an incomplete host batch at the end, which a compiled model would refuse.
        persistent_workers: keep the workers between epochs; None: when there are any.
        auto_distributed_partitioning: with several processes (``options.Distributed``) give each its own part of a map-style dataset.
        mode: where batches are made: in this process, in another one ahead of time (``Async``), or there from the workers' smaller or
            incomplete batches (``AsyncRebatched``). Items of the last two are valid until the next one is taken: clone what is kept.
        async_options: keyword arguments of the AsynchronousDataAccessor of those modes.
        rebatched_worker_size: rows that a worker loads at a time in mode ``AsyncRebatched``; None: a whole host batch.
        batch_sampler: gives the indices of micro batches, which are merged to host batches.
        **kwargs: what else torch.utils.data.DataLoader takes.

    Attributes:
        options: the options given.

    Raises:
        Error: ``batch_sampler`` together with arguments that it replaces; in the asynchronous modes what the accessor raises.
        AssertionError: a combination of arguments that cannot be honoured.
        ValueError: what torch refuses.
    """

    def __init__(
        self,
        options: Options,
        dataset: Any,
        batch_size: Optional[int] = 1,
        shuffle: Optional[bool] = None,
        num_workers: int = 0,
        drop_last: bool = True,
        persistent_workers: Optional[bool] = None,
        auto_distributed_partitioning: bool = True,
        mode: DataLoaderMode = DataLoaderMode.Sync,
        async_options: Optional[Dict[str, Any]] = None,
        rebatched_worker_size: Optional[int] = None,
        batch_sampler: Optional[Iterable[Sequence[Any]]] = None,
        **kwargs: Any,
    ) -> None:
        # Before anything can fail, for the destructor.
        self._accessor: Optional[AsynchronousDataAccessor] = None
        assert isinstance(options, Options), f"options must be poptorch.Options, given {type(options).__name__}."
        mode = DataLoaderMode(mode)
        options._freeze()
        # Not behind a property: Lightning looks for the arguments of a loader among its attributes.
        self.options = options
        n_micro_batches = _micro_batches_per_call(options)
        self._combined_batch_size = None if batch_size is None else batch_size * n_micro_batches
        n_processes = options.Distributed.numProcesses
        is_partitioned = n_processes > 1 and auto_distributed_partitioning

        rebatched_size = None
        if batch_sampler is not None:
            _check_batch_sampler_is_alone(batch_sampler, batch_size, shuffle, is_partitioned)
            if not are_host_batches(batch_sampler):
                # What is incomplete is joined in the worker when batches are rebatched, and dropped there in the end.
                batch_sampler = MergedBatches(batch_sampler, n_micro_batches, drop_last=drop_last and mode != DataLoaderMode.AsyncRebatched)
            self._combined_batch_size = rows_of(batch_sampler)
        elif is_partitioned:
            kwargs["sampler"] = _partition(dataset, options, self._combined_batch_size, shuffle, drop_last, kwargs.get("sampler"))
            shuffle = False
        if mode == DataLoaderMode.AsyncRebatched:
            rebatched_size = self._combined_batch_size
            _check_rebatching(rebatched_size, rebatched_worker_size, batch_sampler)
        if batch_sampler is not None:
            batching: Dict[str, Any] = {"batch_sampler": batch_sampler}
        else:
            worker_rows = rebatched_worker_size if rebatched_size is not None else None
            batching = {
                "batch_size": worker_rows or self._combined_batch_size,
                "shuffle": shuffle,
                "drop_last": drop_last and rebatched_size is None,
            }
        super().__init__(
            dataset,
            num_workers=num_workers,
            persistent_workers=num_workers > 0 if persistent_workers is None else persistent_workers,
            **batching,
            **kwargs,
        )
        if type(self.batch_sampler) is BatchSampler and batch_sampler is None:
            # torch lets nobody set it, because it derives other attributes from it; those stay right.
            object.__setattr__(self, "batch_sampler", HostBatches(self.sampler, batching["batch_size"], self.drop_last))
        self._drops_incomplete_batches = drop_last
        self._rebatched_size = rebatched_size
        self._warn_of_surprises()
        if mode != DataLoaderMode.Sync:
            async_options = async_options or {}
            assert "rebatched_size" not in async_options, (
                "async_options cannot set rebatched_size; mode=DataLoaderMode.AsyncRebatched sets it to the combined batch size."
            )
            # Not this loader itself: the two would keep each other, and the worker, alive.
            self._accessor = AsynchronousDataAccessor(self._for_worker(), **async_options, rebatched_size=rebatched_size)

    def __len__(self) -> int:
        """Number of host batches of one epoch; for an IterableDataset with several workers that round down it can be too high, as in torch.

        Raises:
            TypeError: the dataset or the sampler has no length.
        """
        if self._rebatched_size is None:
            return super().__len__()
        n_samples = len(self.dataset if isinstance(self.dataset, IterableDataset) else self.sampler)  # type: ignore[arg-type]
        return n_samples // self._rebatched_size if self._drops_incomplete_batches else -(-n_samples // self._rebatched_size)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        if self._accessor is not None:
            return iter(self._accessor)
        return batches_at_once(self) or super().__iter__()

    def _get_iterator(self) -> Any:
        """torch's own, which fetches micro-batches one by one where it matters to the user's collate function."""
        if not are_merged(self.batch_sampler) or not is_own(self.collate_fn):
            return super()._get_iterator()
        loader = self._for_worker()
        # torch lets nobody set them, because a loader that is iterated would not notice; this one never is before.
        object.__setattr__(loader, "dataset", InMicroBatches(self.dataset))
        object.__setattr__(loader, "collate_fn", Collated(self.collate_fn))
        return super(DataLoader, loader)._get_iterator()

    @property
    def combinedBatchSize(self) -> Optional[int]:
        """Rows of a host batch; None with batch_size=None, and with a batch sampler that does not tell its own batch size."""
        return self._combined_batch_size

    def terminate(self) -> None:
        """End the worker of an asynchronous mode, after which the loader cannot be iterated; nothing in mode Sync."""
        if self._accessor is not None:
            self._accessor.terminate()

    def _for_worker(self) -> "DataLoader":
        """This loader as the worker process needs it: it makes batches there, and what would have to be pickled in vain is left out."""
        loader = copy.copy(self)
        loader._accessor = None
        loader.__dict__.pop("options", None)
        return loader

    def _warn_of_surprises(self) -> None:
        if isinstance(self.dataset, IterableDataset):
            if self.num_workers > 1 and self.worker_init_fn is None:
                logger.warning(
                    "IterableDataset used with num_workers=%d but no worker_init_fn: unless the dataset looks at "
                    "torch.utils.data.get_worker_info(), the DataLoader returns each of its elements %d times.",
                    self.num_workers,
                    self.num_workers,
                )
            return
        combined = self._combined_batch_size
        if combined is None or type(self.batch_sampler) is not HostBatches:
            return  # the user's own batch sampler decides
        try:
            n_samples = len(self.sampler)  # type: ignore[arg-type]
        except TypeError:
            return  # a sampler of unknown length
        if not self._drops_incomplete_batches and n_samples % combined:
            logger.warning(
                "The number of elements in the dataset (%d) is not divisible by the number of elements of one step (%d) "
                "and drop_last=False: the last batch has %d elements, and a model compiled for %d refuses it. drop_last=True avoids this.",
                n_samples,
                combined,
                n_samples % combined,
                combined,
            )
        elif self._drops_incomplete_batches and n_samples < combined:
            logger.warning(
                "The DataLoader is empty: the dataset has %d elements, one step needs %d, and drop_last=True drops the incomplete batch.",
                n_samples,
                combined,
            )


def _micro_batches_per_call(options: Options) -> int:
    n_input_groups = options.replication_factor // options.input_group_size
    return options.device_iterations * options.Training.gradient_accumulation * n_input_groups


def _check_batch_sampler_is_alone(batch_sampler: Any, batch_size: Optional[int], shuffle: Optional[bool], is_partitioned: bool) -> None:
    if batch_size != 1 or shuffle:
        raise Error(
            f"batch_sampler decides the size and the order of the batches, so it cannot be combined with batch_size={batch_size} and "
            f"shuffle={shuffle}. Leave them out, or leave out batch_sampler."
        )
    if is_partitioned and not are_host_batches(batch_sampler):
        raise Error(
            "batch_sampler cannot be combined with the automatic partitioning of the dataset over several processes. "
            "Give each process a batch sampler for its own part and pass auto_distributed_partitioning=False."
        )


def _check_rebatching(combined: Optional[int], worker_rows: Optional[int], batch_sampler: Optional[Any]) -> None:
    assert combined is not None or batch_sampler is None, (
        "DataLoaderMode.AsyncRebatched joins batches to a fixed number of rows, but the batch_sampler does not tell its batch size "
        "(an attribute batch_size). Use DataLoaderMode.Async."
    )
    if worker_rows is None:
        return
    assert batch_sampler is None, (
        "rebatched_worker_size cannot be combined with batch_sampler, which decides what a worker loads at a time."
    )
    assert combined is not None, "rebatched_worker_size needs a batch size, but batch_size is None."
    assert 0 < worker_rows <= combined, (
        f"The rebatched_worker_size ({worker_rows}) must be positive and not exceed the combined batch size ({combined})."
    )


def _partition(
    dataset: Any, options: Options, combined: Optional[int], shuffle: Optional[bool], drop_last: bool, sampler: Optional[Any]
) -> DistributedPartition:
    """Sampler of this process's part of the dataset."""
    n_processes = options.Distributed.numProcesses
    by_hand = "Give each process its own part of the dataset and pass auto_distributed_partitioning=False."
    assert not isinstance(dataset, IterableDataset), (
        f"auto_distributed_partitioning is not supported for an IterableDataset, and there are {n_processes} processes. {by_hand}"
    )
    assert combined is not None, (
        f"batch_size=None is not allowed with auto_distributed_partitioning over {n_processes} processes. {by_hand}"
    )
    assert not shuffle or options.exists("random_seed"), (
        "When using auto_distributed_partitioning with shuffle=True you must set poptorch.Options.randomSeed(), to the same value in all "
        f"{n_processes} processes, so that they shuffle alike."
    )
    if sampler is not None:
        raise Error(f"A sampler cannot be combined with the automatic partitioning of the dataset over {n_processes} processes. {by_hand}")
    n_samples = len(dataset)
    if drop_last and n_samples < combined * n_processes:
        raise Error(
            f"The dataset has {n_samples} elements, fewer than one step of {combined} for each of {n_processes} processes. "
            "Use a smaller batch size or fewer processes."
        )
    seed = options.random_seed if shuffle else None
    return DistributedPartition(n_samples, combined, options.Distributed.processId, n_processes, drop_last=drop_last, seed=seed)
