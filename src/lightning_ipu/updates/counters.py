"""Lightning's counters where one host batch is several weight updates: global_step, and LR schedulers that advance with every step."""

import contextlib
from typing import Any, Iterator

from lightning_ipu.loading.cutting import Sizes


def count_updates(strategy: Any, optimizer: Any, n_updates: int, sizes: Sizes) -> None:
    """Brings Lightning's counters from the one step that it counts itself to ``n_updates``.

    Args:
        strategy: whose trainer and schedulers.
        optimizer: the user's.
        n_updates: weight updates of the host batch that has just run.
        sizes: of full host batches.
    """
    loop = strategy.trainer.fit_loop
    by_lightning = int(not loop._should_accumulate())
    progress = loop.epoch_loop.automatic_optimization.optim_progress.optimizer.step
    for tracker in (progress.total, progress.current):
        tracker.ready += n_updates - by_lightning
        tracker.completed += n_updates - by_lightning
    # The step that loggers show. Lightning adds one itself after the batch.
    loop.epoch_loop._batches_that_stepped += max(n_updates - 1, 0) if by_lightning else n_updates
    # LR schedulers look here whether the optimizer has stepped before them.
    optimizer._opt_called = True
    if hasattr(optimizer, "_step_count"):
        optimizer._step_count += n_updates
    first = strategy.position.updates_before(strategy.trainer.current_epoch, loop.batch_idx, sizes)
    for config in strategy.lr_scheduler_configs:
        if config.interval != "step" or config.reduce_on_plateau:
            continue
        # As on the CPU the frequency counts batches, of which an update takes G; Lightning makes one step itself where it divides.
        due = sum((first + k) * sizes.n_accumulated % config.frequency == 0 for k in range(1, n_updates + 1))
        for _ in range(due - int((loop.batch_idx + 1) % config.frequency == 0)):
            strategy.call_hook("lr_scheduler_step", config.scheduler, None)


@contextlib.contextmanager
def updates_done(trainer: Any, n_updates: int) -> Iterator[None]:
    """In which ``trainer.global_step`` counts ``n_updates`` of the host batch that runs, for hooks between its updates."""
    progress = trainer.fit_loop.epoch_loop.automatic_optimization.optim_progress.optimizer.step.total
    progress.completed += n_updates
    try:
        yield
    finally:
        progress.completed -= n_updates
