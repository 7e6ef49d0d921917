"""The same LightningModule through the Trainer twice: on the CPU, which is the oracle, and on IPUs with the same effective batch.

A way of training is R replicas, G accumulated micro-batches and D device iterations. The CPU's batch is what the R replicas take
together, B*R rows, and it accumulates G of them; D has no counterpart, since it changes no number.
"""

import importlib
import os
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Tuple

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import lightning_ipu

# LIGHTNING_IPU_TEST_PACKAGE=pytorch_lightning runs the same tests on the other package.
pl: Any = importlib.import_module(os.environ.get("LIGHTNING_IPU_TEST_PACKAGE", "lightning.pytorch"))

BATCH = 4
QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}


@dataclass(frozen=True)
class Way:
    """R, G and D."""

    replicas: int = 1
    accumulated: int = 1
    iterations: int = 1

    def __str__(self) -> str:
        return f"R{self.replicas}G{self.accumulated}D{self.iterations}"

    @property
    def update_rows(self) -> int:
        """Rows of one weight update."""
        return BATCH * self.replicas * self.accumulated


ALONE = Way()
TOGETHER = Way(2, 2, 2)
WAYS = [ALONE, Way(replicas=2), Way(accumulated=2), Way(iterations=3), TOGETHER]


def data(n: int = 32, seed: int = 7) -> TensorDataset:
    """``n`` rows of six numbers with a class of three."""
    generator = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(n, 6, generator=generator), torch.randint(0, 3, (n,), generator=generator))


class Net(pl.LightningModule):
    """Six numbers to three classes. Weights are the same for each instance."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(1)
            self.body = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))

    def loss(self, batch: Any) -> torch.Tensor:
        """Of one batch."""
        x, y = batch
        return F.cross_entropy(self.body(x), y)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.loss(batch)

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        self.log("val_loss", self.loss(batch))

    def test_step(self, batch: Any, batch_idx: int) -> Any:
        self.log("test_loss", self.loss(batch))

    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        return self.body(batch[0])

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


class Memory(pl.loggers.Logger):
    """A logger that keeps what it is given: (step, metrics) in order."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: List[Tuple[int, Dict[str, float]]] = []

    @property
    def name(self) -> str:
        return "memory"

    @property
    def version(self) -> int:
        return 0

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        pass

    def log_metrics(self, metrics: Dict[str, float], step: int) -> None:
        self.lines.append((step, {name: float(value) for name, value in metrics.items()}))


class Side:
    """One of the two runs.

    Args:
        accelerator: ``cpu`` or ``ipu``.
        way: R, G and D.
    """

    def __init__(self, accelerator: str, way: Way = ALONE) -> None:
        self.accelerator, self.way = accelerator, way

    @property
    def is_ipu(self) -> bool:
        """Whether it runs on IPUs."""
        return self.accelerator == "ipu"

    def trainer(self, **flags: Any) -> Any:
        """A quiet Trainer of this side for two epochs; ``flags`` come on top."""
        devices = self.way.replicas if self.is_ipu else 1
        flags = {**QUIET, "max_epochs": 2, "devices": devices, "accumulate_grad_batches": self.way.accumulated, **flags}
        if self.is_ipu:
            flags.setdefault("strategy", lightning_ipu.IPUStrategy(device_iterations=self.way.iterations))
        return pl.Trainer(accelerator=self.accelerator, **flags)

    def loader(self, dataset: Any = None, batch: int = BATCH, **arguments: Any) -> DataLoader:
        """A loader of micro-batches here, of what R replicas take together on the CPU."""
        return DataLoader(data() if dataset is None else dataset, batch_size=batch * (1 if self.is_ipu else self.way.replicas), **arguments)


def on_both(run: Callable[[Side], Any], way: Way = ALONE) -> Tuple[Any, Any]:
    """What ``run`` gives on the CPU, and on IPUs. Random numbers of the host start alike."""
    results = []
    for accelerator in ("cpu", "ipu"):
        torch.manual_seed(3)
        results.append(run(Side(accelerator, way)))
    return results[0], results[1]


def weights(module: nn.Module) -> torch.Tensor:
    """All weights and buffers in one vector, a copy."""
    return torch.cat([value.detach().double().flatten() for value in module.state_dict().values()]).clone()


def numbers(metrics: Dict[str, Any]) -> Dict[str, float]:
    """Metrics as plain numbers."""
    return {name: float(value) for name, value in metrics.items()}


def assert_same(got: Any, want: Any, tolerance: float = 1e-5) -> None:
    """``got`` equals ``want``: dictionaries by name, lists by place, numbers and tensors within ``tolerance`` relative to the largest."""
    if isinstance(want, dict):
        assert sorted(got) == sorted(want)
        for name in want:
            assert_same(got[name], want[name], tolerance)
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want), f"got {got}, want {want}"
        for one, other in zip(got, want):
            assert_same(one, other, tolerance)
    elif isinstance(want, (float, torch.Tensor)):
        one, other = torch.as_tensor(got).double(), torch.as_tensor(want).double()
        assert one.shape == other.shape, f"got shape {tuple(one.shape)}, want {tuple(other.shape)}"
        scale = float(other.abs().max()) if other.numel() else 0.0
        torch.testing.assert_close(one, other, rtol=0.0, atol=tolerance * max(scale, 1e-3), equal_nan=True)
    else:
        assert got == want
