"""How often a step will be called in the run that has begun, as far as the Trainer's flags tell: compiling pays only for many calls."""

import math
from typing import Any, Optional

from lightning_ipu.loading.cutting import Sizes


def calls_to_come(trainer: Any, step: str, sizes: Sizes, *, is_rest: bool) -> Optional[int]:
    """Calls of the device; None where nothing says when the run ends. A callback may end it sooner.

    Args:
        trainer: of the run.
        step: ``training_step``, ``validation_step``, ``test_step`` or ``predict_step``.
        sizes: D, G and R of the step.
        is_rest: whether the step is for the short end of an epoch, which comes once in it.
    """
    if step == "test_step":
        return 1 if is_rest else _finite(sum(trainer.num_test_batches))
    if step == "predict_step":
        return 1 if is_rest else _finite(sum(trainer.num_predict_batches))
    epochs = _epochs_to_come(trainer)
    if step == "training_step":
        return _finite(epochs if is_rest else _batches_to_come(trainer, epochs, sizes))
    if trainer.state.fn != "fit":
        return 1 if is_rest else _finite(sum(trainer.num_val_batches))
    runs = _validations_to_come(trainer, epochs)
    return _finite(runs if is_rest else runs * sum(trainer.num_val_batches))


def _epochs_to_come(trainer: Any) -> float:
    most = trainer.max_epochs
    epochs = math.inf if most is None or most < 0 else max(1.0, most - trainer.current_epoch)
    if trainer.max_steps >= 0 and 0 < trainer.num_training_batches < math.inf:
        return max(1.0, min(epochs, (trainer.max_steps - trainer.global_step) / trainer.num_training_batches))
    return epochs


def _validations_to_come(trainer: Any, epochs: float) -> float:
    every = trainer.check_val_every_n_epoch or 1
    if math.isfinite(epochs):
        done = trainer.current_epoch
        epochs = max(1, int(done + epochs) // every - done // every)
    batches, between = trainer.num_training_batches, getattr(trainer, "val_check_batch", None)  # not known in the sanity check
    if not between or not math.isfinite(batches) or not math.isfinite(between):
        return float(epochs)
    return float(epochs * max(1, batches // between))


def _batches_to_come(trainer: Any, epochs: float, sizes: Sizes) -> float:
    batches = epochs * trainer.num_training_batches
    if trainer.max_steps >= 0:
        batches = min(batches, math.ceil((trainer.max_steps - trainer.global_step) / sizes.n_iterations))
    return float(batches)


def _finite(calls: float) -> Optional[int]:
    return int(calls) if math.isfinite(calls) else None
