"""What is compared. Run by train.py, once for each: `contenders.py NAME WORKLOAD [--engine E] [--device-iterations D]`.

lightning-cpu      Trainer(accelerator="cpu")
lightning-compile  the same with torch.compile on the model
torch-loop         a hand-written loop over a DataLoader
poptorch-loop      a loop over poptorch.DataLoader that calls poptorch.trainingModel
plugin             Trainer(accelerator="ipu")
matmul             no model: products of two square matrices, for the machine's peak
"""

import argparse
import logging
import os
from typing import Any, Callable, Dict, Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader
from turns import Baton
from workloads import WORKLOADS, Workload

LEARNING_RATE = 1e-3
MATMUL_SIZE = 2048


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=sorted(CONTENDERS))
    parser.add_argument("workload")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--device-iterations", type=int, default=1)
    given = parser.parse_args()
    baton = Baton()
    torch.manual_seed(0)
    CONTENDERS[given.name](WORKLOADS.get(given.workload), baton, given)


def torch_loop(workload: Workload, baton: Baton, given: argparse.Namespace) -> None:
    module = workload.module().train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=LEARNING_RATE)
    loader = DataLoader(workload.dataset(), workload.batch_size, shuffle=True)
    n = workload.n_accumulated
    for index, (x, y) in enumerate(_forever(loader)):
        loss = module(x, y)
        (loss / n if n > 1 else loss).backward()
        if (index + 1) % n == 0:
            optimizer.step()
            optimizer.zero_grad()
            if not baton.passed(1):
                return


def poptorch_loop(workload: Workload, baton: Baton, given: argparse.Namespace) -> None:
    os.environ["SOFTIPU_ENGINE"] = given.engine
    from softipu import poptorch

    module = workload.module().train()
    options = poptorch.Options()
    options.deviceIterations(given.device_iterations)
    options.Training.gradientAccumulation(workload.n_accumulated)
    loader = poptorch.DataLoader(options, workload.dataset(), workload.batch_size, shuffle=True)
    executor = poptorch.trainingModel(module, options, torch.optim.AdamW(module.parameters(), lr=LEARNING_RATE))
    for x, y in _forever(loader):
        executor(x, y)
        if not baton.passed(given.device_iterations):
            return


def lightning_cpu(workload: Workload, baton: Baton, given: argparse.Namespace) -> None:
    _fit(workload, baton, workload.module(), {"accelerator": "cpu", "devices": 1})


def lightning_compile(workload: Workload, baton: Baton, given: argparse.Namespace) -> None:
    _fit(workload, baton, torch.compile(workload.module()), {"accelerator": "cpu", "devices": 1})


def plugin(workload: Workload, baton: Baton, given: argparse.Namespace) -> None:
    import lightning_ipu

    # BERT-Base with AdamW is more than one IPU holds; what is measured is the software.
    strategy = lightning_ipu.IPUStrategy(device_iterations=given.device_iterations, engine=given.engine, allow_oom=True)
    _fit(workload, baton, workload.module(), {"accelerator": "ipu", "devices": 1, "strategy": strategy}, given.device_iterations)


def matmul(workload: Any, baton: Baton, given: argparse.Namespace) -> None:
    a, b = torch.randn(MATMUL_SIZE, MATMUL_SIZE), torch.randn(MATMUL_SIZE, MATMUL_SIZE)
    out = torch.empty(MATMUL_SIZE, MATMUL_SIZE)
    while True:
        torch.mm(a, b, out=out)
        if not baton.passed(1):
            return


def _fit(workload: Workload, baton: Baton, network: Any, trainer_arguments: Dict[str, Any], updates_per_batch: int = 1) -> None:
    import lightning as L

    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)

    class Model(L.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network: nn.Module = network

        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            return self.network(*batch)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=LEARNING_RATE)

    class Turns(L.Callback):
        seen = 0

        def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
            done, self.seen = trainer.global_step - self.seen, trainer.global_step
            if done and not baton.passed(done):
                trainer.should_stop = True

    # fmt: off
    trainer = L.Trainer(
        max_epochs=-1, callbacks=[Turns()], accumulate_grad_batches=workload.n_accumulated, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, **trainer_arguments,
    )
    # fmt: on
    trainer.fit(Model(), DataLoader(workload.dataset(), workload.batch_size, shuffle=True))


def _forever(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


CONTENDERS: Dict[str, Callable[..., None]] = {
    "lightning-cpu": lightning_cpu,
    "lightning-compile": lightning_compile,
    "torch-loop": torch_loop,
    "poptorch-loop": poptorch_loop,
    "plugin": plugin,
    "matmul": matmul,
}

if __name__ == "__main__":
    main()
