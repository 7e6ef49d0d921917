"""The plug-in uses PopTorch 3.4's public names and nothing else, so that what works in software works on hardware.

Every test of this folder runs on the proxy of public_poptorch.py; here runs of every kind, and the proxy itself.
"""

import lightning.pytorch as pl
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import lightning_ipu
from lightning_ipu import backend, poptorch
from softipu.report.plan import Plan, Stage
from tests.lightning_ipu.public_poptorch import PLUGIN

QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.1), nn.Linear(4, 2))
        self.count = 0

    def training_step(self, batch, batch_idx):
        self.count += 1
        loss = F.mse_loss(self.body(batch[0]), batch[1]) * (1 + batch_idx)
        self.log("loss", loss)
        return 2 * loss if self.current_epoch == 1 else loss

    def validation_step(self, batch, batch_idx):
        self.log("v", F.mse_loss(self.body(batch[0]), batch[1]))

    test_step = validation_step

    def predict_step(self, batch, batch_idx):
        return self.body(batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        return [optimizer], [{"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 2), "interval": "step"}]


@pytest.mark.parametrize("devices", [1, 2])
def test_every_kind_of_run_uses_public_names_only(asked_of_poptorch, devices, tmp_path):
    loader = DataLoader(TensorDataset(torch.randn(34, 4), torch.randn(34, 2)), batch_size=4)
    strategy = lightning_ipu.IPUStrategy(device_iterations=2)
    flags = {"accelerator": "ipu", "devices": devices, "strategy": strategy, "max_epochs": 2, "gradient_clip_val": 1.0}
    trainer = pl.Trainer(accumulate_grad_batches=2, **flags, **QUIET)
    net = Net()
    trainer.fit(net, loader, loader)
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    trainer.fit_loop.max_epochs = 3
    trainer.fit(net, loader, loader, ckpt_path=tmp_path / "half.ckpt")
    trainer.validate(net, loader, verbose=False)
    trainer.test(net, loader, verbose=False)
    predictions = trainer.predict(net, loader)
    assert sum(len(p) for p in predictions) == 34
    assert {"compile", "detachFromDevice", "attachToDevice", "destroy"} <= asked_of_poptorch["PoplarExecutor"]


def test_a_plan_is_applied_through_public_names_only(asked_of_poptorch, monkeypatch):
    plan = Plan(
        stages=(Stage("", 0, recompute=True), Stage("body.2", 1)), micro_batch=4, gradient_accumulation=4, checkpoints=("body.1",),
        optimizer_state_off_chip=True, replicated_tensor_sharding=True, n_io_tiles=32,
    )  # fmt: skip
    loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 2)), batch_size=4)
    # As on hardware: what looks into the software IPU's steps is not there.
    monkeypatch.setattr(backend, "choose", lambda: backend.Backend("sdk", "an IPU is attached"))
    monkeypatch.setattr(lightning_ipu.strategy.figures, "cycles", lambda executor, poptorch: {})
    net = Net()
    trainer = pl.Trainer(accelerator="ipu", devices=2, strategy=lightning_ipu.IPUStrategy(plan=plan), max_epochs=1, **QUIET)
    trainer.fit(net, loader, loader)
    trainer.predict(net, loader)
    assert trainer.global_step == 2
    assert {"setExecutionStrategy", "setAvailableMemoryProportion"} <= asked_of_poptorch["Options"]


def in_the_plugin(expression, **names):
    return eval(compile(expression, PLUGIN + "somewhere.py", "eval"), names)


@pytest.mark.parametrize(
    "expression, name",
    [
        ("options._values", "Options._values"),
        ("options.Training._values", "TrainingOptions._values"),
        ("executor._module", "PoplarExecutor._module"),
        ("executor.weight", "PoplarExecutor.weight"),
        ("optimizer.rule", "SGD.rule"),
        ("loader._accessor", "DataLoader._accessor"),
        ("poptorch.engine_choice", "poptorch.engine_choice"),
        ("block._ipu_id", "Block._ipu_id"),
    ],
)
def test_other_names_are_refused_to_the_plugin(expression, name):
    model, public = nn.Linear(2, 2), backend.poptorch()
    options = poptorch.Options()
    things = {
        "poptorch": public,
        "options": options,
        "executor": poptorch.inferenceModel(model),
        "optimizer": poptorch.optim.SGD(model.parameters(), lr=0.1),
        "loader": poptorch.DataLoader(poptorch.Options(), torch.ones(4, 2), batch_size=2),
        "block": poptorch.Block("a", ipu_id=0),
    }
    with pytest.raises(AttributeError, match=f"{name} is no public name of PopTorch 3.4"):
        in_the_plugin(expression, **things)


def test_public_names_are_there_for_the_plugin():
    options = poptorch.Options().deviceIterations(3)
    assert in_the_plugin("options.device_iterations + poptorch.Options().device_iterations", options=options, poptorch=poptorch) == 4
    assert in_the_plugin("getattr(options, '_values', 'none')", options=options) == "none"
