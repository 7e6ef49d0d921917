"""A fit that stops where training would begin: the step is captured on fake tensors and given to whoever asked.

Everything up to the first training step is Lightning's own and the user's (setup, data modules, hooks, the first batch), so the captured
step is the one that would be trained. Loggers, checkpoints, files of LightningCLI and the sanity check are left out, as nothing is trained.
"""

from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch

from lightning_ipu._lightning import is_imported
from lightning_ipu.loading.cutting import Sizes
from lightning_ipu.step.captured_step import Conditions
from lightning_ipu.step.capturing import Capturing, Grow
from lightning_ipu.step.device import CompiledStep, Device
from lightning_ipu.step.step_module import Call
from lightning_ipu.structures.outputs import Cut

ROOT = "module"  # where StepModule holds the LightningModule


@dataclass(frozen=True)
class DryStep:
    """A step that would be trained.

    Attributes:
        name: class of the LightningModule.
        layout_at: captures it for a micro-batch of so many items; paths of modules are the LightningModule's own.
        micro_batch: of the user's loader.
    """

    name: str
    layout_at: Callable[[int], Any]
    micro_batch: int


class Stopped(BaseException):
    """The fit has come to its first training step. Derived from BaseException, so that no script takes it for an error of its own."""


def dry_fit(fit: Callable[..., Any], trainer: Any, *args: Any, **kwargs: Any) -> DryStep:
    """Runs ``trainer.fit(*args, **kwargs)`` up to the first training step.

    Args:
        fit: Trainer.fit itself, where the class's attribute has been replaced.

    Raises:
        MisconfigurationException: the Trainer does not train on IPUs, or there is no batch.
    """
    strategy = trainer.strategy
    found: List[DryStep] = []
    trainer.loggers = []
    trainer.num_sanity_val_steps = 0
    trainer.callbacks = [callback for callback in trainer.callbacks if not _writes_or_draws(callback, strategy.lightning)]
    true_sizes = type(strategy).sizes
    loaded = _Loaded()

    def process_dataloader(loader: Any) -> Any:
        # A poptorch.DataLoader gives whole host batches; of any other loader one micro-batch is enough.
        if isinstance(loader, strategy.poptorch.DataLoader):
            loaded.n_micro_batches = true_sizes(strategy, trains=True).n_micro_batches
        return loader

    strategy.process_dataloader = process_dataloader
    strategy.sizes = lambda *, trains: Sizes(1, 1, 1, None)
    strategy.model_to_device = lambda: None  # weights may be without memory
    strategy.make_capturing = lambda: _DryCapturing(strategy, loaded, lambda: true_sizes(strategy, trains=True), found)
    try:
        fit(trainer, *args, **kwargs)
    except Stopped:
        return found[0]
    finally:
        for name in ("process_dataloader", "sizes", "model_to_device", "make_capturing"):
            del strategy.__dict__[name]
    raise strategy.lightning.misconfiguration(
        "Trainer.fit ended before a training step: the loader gave no batch, or max_steps, max_epochs or limit_train_batches is 0. "
        "Planning needs one batch."
    )


@dataclass
class _Loaded:
    """How many micro-batches one batch of the loader holds."""

    n_micro_batches: int = 1


def _writes_or_draws(callback: Any, lightning: Any) -> bool:
    kinds = [lightning.name("callbacks", name) for name in ("Checkpoint", "ProgressBar", "ModelSummary")]
    if is_imported(f"{lightning.package}.cli"):  # LightningCLI writes its configuration, and refuses to write over another
        kinds.append(lightning.name("cli", "SaveConfigCallback"))
    return isinstance(callback, tuple(kinds))


class _DryCapturing:
    """Stands in for ``Capturing``: keeps what it is asked to capture, and stops the fit."""

    def __init__(self, strategy: Any, loaded: _Loaded, sizes: Callable[[], Sizes], found: List[DryStep]) -> None:
        self._strategy, self._loaded, self._sizes, self._found = strategy, loaded, sizes, found

    def capture(
        self, step: str, call: Call, cut: Cut, tensors: List[torch.Tensor], environment: Dict[Any, Any], conditions: Conditions, grow: Grow
    ) -> None:
        strategy, sizes = self._strategy, self._sizes()
        rows = next((t.shape[0] for t in tensors if t.dim()), 1)
        micro_batch = max(1, rows // self._loaded.n_micro_batches)

        layout_at = layouts(strategy, step, call, sizes, tensors, rows, environment, conditions, grow)
        self._found.append(DryStep(type(strategy.lightning_module).__name__, layout_at, micro_batch))
        raise Stopped


def layouts(
    strategy: Any,
    step: str,
    call: Call,
    sizes: Sizes,
    tensors: Sequence[torch.Tensor],
    rows: int,
    environment: Dict[Any, Any],
    conditions: Conditions,
    grow: Grow,
) -> Callable[[int], Any]:
    """A function that captures a step for micro-batches of so many items, and gives its layout.

    Args:
        strategy, step, call, environment, conditions, grow: as for ``Capturing.capture``.
        sizes: D, G and R.
        tensors: a batch of the step.
        rows: how many rows its tensors have.
    """

    def layout_at(n: int) -> Any:
        board = _DrawingBoard(strategy, n)
        own = Cut(sizes.n_iterations, sizes.n_accumulated, sizes.n_replicas, n, sizes.n_micro_batches)
        resized = [_rows_of(tensor, rows, n) for tensor in tensors]
        Capturing(strategy, board, looks_only=True).capture(step, replace(call, micro_rows=n), own, resized, environment, conditions, grow)
        return board.layout

    return layout_at


def _rows_of(tensor: torch.Tensor, rows: int, n: int) -> torch.Tensor:
    """``n`` rows in the place of ``rows``; the values do not matter."""
    if not tensor.dim() or tensor.shape[0] != rows:
        return tensor
    return tensor.new_empty((n, *tensor.shape[1:])).copy_(tensor[:1].expand(n, *tensor.shape[1:]))


class _DrawingBoard(Device):
    """A ``Device`` without one: captures a step instead of compiling it."""

    def __init__(self, strategy: Any, micro_batch: int) -> None:
        super().__init__(strategy.poptorch, strategy.lightning_module)
        self.layout: Optional[Any] = None
        self._micro_batch = micro_batch

    def compile(self, step: CompiledStep, inputs: Sequence[torch.Tensor]) -> None:
        from softipu.poptorch.executor.layout import capture_layout

        # The first two are live numbers, a row for each micro-batch; the others are one micro-batch already.
        micro = [*(tensor[:1] for tensor in inputs[:2]), *inputs[2:]]
        try:
            self.layout = capture_layout(step.executor, self._micro_batch, *micro, root=ROOT)
        finally:
            step.executor.destroy()

    def drop(self, step: CompiledStep) -> None:
        """Nothing: nothing is kept."""
