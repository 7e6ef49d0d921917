"""The plug-in uses PopTorch 3.4's public names and nothing else, so that what works in software works on hardware.

Runs of every kind with attribute access watched: a name that PopTorch does not document, asked for by a file of the plug-in, is an error.
"""

import os
import sys
import types

import lightning.pytorch as pl
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import lightning_ipu
from lightning_ipu import backend, poptorch
from softipu.report.plan import Plan, Stage

QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
PLUGIN = os.path.dirname(lightning_ipu.__file__) + os.sep

# What PopTorch 3.4's user guide and API reference have, as far as a plug-in for Lightning could want it.
MODULE = set(
    "Block BeginBlock BlockFunction Options OutputMode DataLoader DataLoaderMode trainingModel inferenceModel identity_loss optim enums "
    "PipelinedExecution ShardedExecution AutoStage BeginBlock TensorLocationSettings recomputationCheckpoint "
    "PoplarExecutor Error isRunningOnIpu ipuHardwareIsAvailable ipuHardwareVersion setLogLevel removeBlocks load".split()
)
EXECUTOR = set(
    "compile destroy isCompiled isAttachedToDevice attachToDevice detachFromDevice copyWeightsToHost copyWeightsToHostIfNeeded "
    "copyWeightsToDevice setOptimizer load_state_dict model options rng_state getPerfCounters getLatency getComputeLatency "
    "cycleCount save".split()
)
OPTIONS = set(
    "Training Precision Distributed TensorLocations clone deviceIterations replicationFactor outputMode randomSeed random_seed "
    "device_iterations replication_factor output_mode input_group_size broadcastBuffers relaxOptimizerAttributesChecks "
    "setExecutionStrategy setAvailableMemoryProportion _Popart defaultOutputMode toDict".split()
)
POPART, PRECISION = {"set"}, {"setPartialsType", "enableFloatingPointExceptions"}
LOCATIONS = {"numIOTiles", "setOptimizerLocation"}
LOCATION = {"useOnChipStorage", "useReplicatedTensorSharding"}
TRAINING = {"gradientAccumulation", "gradient_accumulation", "accumulationAndReplicationReductionType"}
# The last is what the plug-in itself puts there.
LOADER = {"options", "combinedBatchSize", "terminate", "_lightning_ipu_sizes"}
OPTIMIZER = set(
    "state_dict load_state_dict get_state_dict set_state_dict has_state loss_scaling accum_type velocity_accum_type max_grad_norm "
    "first_order_momentum_accum_type second_order_momentum_accum_type use_combined_accum bias_correction max_weight_norm use_tf_variant "
    "variable_attrs".split()
)


def asked_by_the_plugin():
    return sys._getframe(2).f_code.co_filename.startswith(PLUGIN)


@pytest.fixture
def watched(monkeypatch):
    """Names asked for, by class. Asking for one that is not public fails."""
    used = {}

    def check(kind, name, allowed):
        used.setdefault(kind, set()).add(name)
        assert name in allowed, f"the plug-in uses {kind}.{name}, which PopTorch does not document"

    def watch(cls, allowed, inherited=object):
        original = cls.__getattribute__

        def __getattribute__(self, name):
            if asked_by_the_plugin() and not name.startswith("__") and not hasattr(inherited, name) and name not in _of_torch:
                check(cls.__name__, name, allowed)
            return original(self, name)

        monkeypatch.setattr(cls, "__getattribute__", __getattribute__)

    class Module(types.ModuleType):
        def __getattribute__(self, name):
            if not name.startswith("__"):
                check("poptorch", name, MODULE)
            return getattr(poptorch, name)

    _of_torch = set(vars(torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1))) | set(vars(DataLoader([1])))
    watch(poptorch.PoplarExecutor, EXECUTOR)
    watch(poptorch.Options, OPTIONS)
    watch(type(poptorch.Options().Training), TRAINING)
    watch(type(poptorch.Options()._Popart), POPART)
    watch(type(poptorch.Options().Precision), PRECISION)
    watch(type(poptorch.Options().TensorLocations), LOCATIONS)
    watch(poptorch.TensorLocationSettings, LOCATION)
    watch(poptorch.DataLoader, LOADER, DataLoader)
    watch(poptorch.optim.SGD, OPTIMIZER, torch.optim.SGD)
    proxy = Module("poptorch")
    monkeypatch.setattr(backend, "poptorch", lambda: proxy)
    return used


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
def test_every_kind_of_run_uses_public_names_only(watched, devices, tmp_path):
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
    assert {"compile", "detachFromDevice", "attachToDevice", "destroy"} <= watched["PoplarExecutor"]
    assert "trainingModel" in watched["poptorch"]


def test_a_plan_is_applied_through_public_names_only(watched, monkeypatch):
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
    assert {"BeginBlock", "removeBlocks", "recomputationCheckpoint", "PipelinedExecution", "ShardedExecution"} <= watched["poptorch"]
    assert {"setExecutionStrategy", "setAvailableMemoryProportion"} <= watched["Options"]


def test_the_watch_notices_a_name_that_is_not_public(watched):
    code = compile("options._values", PLUGIN + "somewhere.py", "eval")
    with pytest.raises(AssertionError, match="uses Options._values, which PopTorch does not document"):
        eval(code, {"options": poptorch.Options()})
