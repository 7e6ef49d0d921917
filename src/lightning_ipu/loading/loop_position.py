"""Where training is within its epochs, in the batches of an equivalent CPU run: what checkpoints hold.

Lightning counts host batches, of which each is D*G batches of the CPU. A file with that count could only be continued with the same D and
G, so it is written in the CPU's, and turned back into host batches when a run begins with it. Like Lightning on the CPU, an epoch that is
continued begins with the first samples of the loader and makes as many updates as were missing.
"""

from typing import Any, Dict, Mapping, Optional

from lightning_ipu.loading import batching
from lightning_ipu.loading.cutting import Sizes

_TRACKED = ("ready", "started", "processed", "completed")
_PROGRESS = "epoch_loop.batch_progress"
_PER_UPDATE = "batches_per_update"


class LoopPosition:
    """The position of one Trainer's training.

    It outlives a run, for checkpoints that are written after it.
    """

    def __init__(self) -> None:
        self._before = self._batches = self._host_batches = 0
        self._per_update = 1
        self._per_update_of_file: Optional[int] = None
        self._is_from_file = False
        self._epoch: Optional[int] = None
        self._shift = 0
        self._missing: Optional[int] = None

    def count(self, epoch_loop: Any, n_batches: int, n_updates: int, sizes: Sizes) -> None:
        """Takes note of a host batch that has run.

        Args:
            epoch_loop: Lightning's, which has counted it as one.
            n_batches: batches of the CPU in it.
            n_updates: weight updates that it made.
            sizes: of full host batches.
        """
        ready = epoch_loop.batch_progress.current.ready
        self._per_update = sizes.n_accumulated
        if ready <= self._host_batches:
            self._before, self._batches, self._host_batches = self._before + self._batches, 0, 0
        # Those between were left out, by None for a batch.
        self._batches += (ready - 1 - self._host_batches) * sizes.n_groups + n_batches
        self._host_batches = ready
        if self._missing is not None:
            self._missing -= n_updates

    def updates_before(self, epoch: int, host_batch: int, sizes: Sizes) -> int:
        """Updates of the epoch before a host batch: D times its number, unless a file ended within one."""
        return host_batch * sizes.n_iterations + (self._shift if epoch == self._epoch else 0)

    def most_updates(self, epoch: int, sizes: Sizes) -> Optional[int]:
        """How many updates the next host batch makes at most, where a continued epoch has fewer left than D."""
        if epoch != self._epoch or self._missing is None or self._missing >= sizes.n_iterations:
            return None
        return self._missing

    # To a file

    def write(self, checkpoint: Dict[str, Any]) -> Dict[str, Any]:
        """Puts the CPU's count in the place of Lightning's, and returns what reading it needs beside."""
        state = checkpoint.get("loops", {}).get("fit_loop", {}).get(_PROGRESS)
        if state is None or self._is_from_file:
            return {}
        current, total = state["current"], state["total"]
        before, position = self._before, self._batches
        if current["ready"] < self._host_batches:  # a new epoch, whose first batch has not run
            before, position = before + position, current["ready"]
        else:
            position += current["ready"] - self._host_batches
        for tracker, ready in ((total, before + position), (current, position)):
            tracker.update({name: max(ready - (tracker["ready"] - tracker[name]), 0) for name in _TRACKED[::-1]})
        return {_PER_UPDATE: self._per_update}

    # From a file

    def read(self, checkpoint: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        """Takes note that Lightning's loops are going to hold the count of a file.

        Args:
            checkpoint: what the file holds.
            own: what ``write`` returned for it; empty for a file of the CPU's.
        """
        if "loops" in checkpoint:
            self._is_from_file, self._per_update_of_file = True, own.get(_PER_UPDATE)

    def begin(self, trainer: Any, sizes: Sizes) -> None:
        """Turns the count of a file in Lightning's loops into host batches, when everything about the loaders is known."""
        self._epoch, self._shift, self._missing = None, 0, None
        if not self._is_from_file:
            return
        self._is_from_file = False
        loop = trainer.fit_loop.epoch_loop
        progress, per_update = loop.batch_progress, self._per_update_of_file or sizes.n_accumulated
        current, total = progress.current, progress.total
        # Versions of Lightning differ in whether they repeat a batch at whose end a file was written.
        is_counted = bool(getattr(loop, "restarted_on_train_batch_end", False))
        done = current.completed + is_counted
        n_host_batches = trainer.num_training_batches
        updates, epoch_updates = done // per_update, None
        if n_host_batches != float("inf"):
            epoch_updates = epoch_length(trainer, sizes)
            is_whole = progress.is_last_batch and done == current.ready
            updates = epoch_updates if is_whole else min(updates, epoch_updates)
            host_batches = int(n_host_batches) - -(-(epoch_updates - updates) // sizes.n_iterations)
        else:
            host_batches = updates // sizes.n_iterations
        self._per_update = sizes.n_accumulated
        self._before = (total.ready - current.ready) * sizes.n_accumulated // per_update
        self._batches, self._host_batches = done * sizes.n_accumulated // per_update, host_batches
        if loop.restarting and updates != epoch_updates:
            self._batches = updates * sizes.n_accumulated
            self._epoch, self._shift = trainer.current_epoch, updates - host_batches * sizes.n_iterations
            self._missing = None if epoch_updates is None else epoch_updates - updates
        before = trainer.current_epoch * int(n_host_batches) if epoch_updates is not None else self._before // sizes.n_groups
        for tracker, completed in ((total, before + host_batches - is_counted), (current, host_batches - is_counted)):
            lead = {name: getattr(tracker, name) - tracker.completed for name in _TRACKED}
            for name in _TRACKED:
                setattr(tracker, name, completed + lead[name])


def epoch_length(trainer: Any, sizes: Sizes) -> int:
    """Weight updates of one epoch of training, whose number of host batches is known."""
    loaders = trainer.fit_loop._combined_loader.flattened
    return min(batching.updates_per_epoch(loader, sizes, int(trainer.num_training_batches)) for loader in loaders)
