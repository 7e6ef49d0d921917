"""Trainer's flags, profilers, the Tuner and the command line: as on the CPU."""

import importlib
import os
import sys

import pytest
import torch

from tests.lightning_ipu.trainer.oracle import ALONE, TOGETHER, Memory, Net, Side, Way, assert_same, data, on_both, pl, weights


class Validates(Net):
    """Notes at which updates validation begins."""

    def __init__(self):
        super().__init__()
        self.begun = []

    def on_validation_start(self):
        self.begun.append((self.trainer.current_epoch, self.trainer.global_step, self.trainer.sanity_checking))


FLAGS = {
    "max_steps": {"max_steps": 11, "max_epochs": -1},
    "max_steps within an epoch": {"max_steps": 3},
    "min_epochs": {"min_epochs": 2, "max_epochs": 3},
    "limit_train_batches": {"limit_train_batches": 3},
    "limit_train_batches as a fraction": {"limit_train_batches": 0.5},
    "limit_val_batches": {"limit_val_batches": 1},
    "no validation": {"limit_val_batches": 0},
    "overfit_batches": {"overfit_batches": 2},
    "overfit_batches as a fraction": {"overfit_batches": 0.5},
    "fast_dev_run": {"fast_dev_run": True},
    "fast_dev_run of three": {"fast_dev_run": 3},
    "num_sanity_val_steps": {"num_sanity_val_steps": -1},
    "no sanity check": {"num_sanity_val_steps": 0},
    "val_check_interval": {"val_check_interval": 3},
    "val_check_interval as a fraction": {"val_check_interval": 0.5},
    "val_check_interval over epochs": {"val_check_interval": 5, "check_val_every_n_epoch": None, "max_epochs": 3},
    "check_val_every_n_epoch": {"check_val_every_n_epoch": 2, "max_epochs": 4},
    "detect_anomaly": {"detect_anomaly": True},
    "inference_mode": {"inference_mode": False},
    "use_distributed_sampler": {"use_distributed_sampler": False},
    "sync_batchnorm": {"sync_batchnorm": True},
    "reload_dataloaders_every_n_epochs": {"reload_dataloaders_every_n_epochs": 1},
    "max_time": {"max_time": "00:01:00:00"},
}


@pytest.mark.parametrize("name", list(FLAGS))
def test_flag(name):
    def run(side):
        module = Validates()
        trainer = side.trainer(**FLAGS[name])
        trainer.fit(module, side.loader(), side.loader(data(10)))
        return weights(module), trainer.global_step, trainer.current_epoch, module.begun, trainer.num_training_batches

    want, got = on_both(run, ALONE if name == "sync_batchnorm" else Way(replicas=2))
    assert_same(got, want)


@pytest.mark.parametrize("steps", [1, 5, 6, 11])
def test_max_steps_are_exact_with_device_iterations(steps):
    def run(side):
        module = Net()
        trainer = side.trainer(max_steps=steps, max_epochs=-1)
        trainer.fit(module, side.loader())
        return weights(module), trainer.global_step

    want, got = on_both(run, Way(1, 1, 4))
    assert want[1] == steps
    assert_same(got, want)


def test_validation_intervals_count_calls_of_the_device():
    side = Side("ipu", Way(1, 1, 2))
    module = Validates()
    side.trainer(val_check_interval=2, max_epochs=1, num_sanity_val_steps=0).fit(module, side.loader(data(32)), side.loader(data(8)))
    assert [step for _, step, _ in module.begun] == [4, 8]


@pytest.mark.parametrize("way", [ALONE, Way(2, 1, 2)], ids=str)
@pytest.mark.parametrize("scheduling", [{0: 1, 2: 4}, {1: 2, 2: 3}], ids=str)
def test_accumulation_by_schedule(scheduling, way):
    def run(side):
        module = Net()
        trainer = side.trainer(max_epochs=4, callbacks=pl.callbacks.GradientAccumulationScheduler(dict(scheduling)))
        trainer.fit(module, side.loader(data(96)), side.loader(data(8)))
        return weights(module), trainer.global_step, trainer.accumulate_grad_batches if not side.is_ipu else 1

    want, got = on_both(run, way)
    assert_same(got[:2], want[:2])


def test_max_time_ends_a_run():
    side = Side("ipu")
    trainer = side.trainer(max_epochs=-1, max_time={"seconds": 1})
    trainer.fit(Net(), side.loader())
    assert trainer.global_step > 0


def test_deterministic():
    def run(side):
        module = Net()
        try:
            side.trainer(deterministic=True).fit(module, side.loader())
        finally:
            torch.use_deterministic_algorithms(False)
        return weights(module)

    want, got = on_both(run)
    assert_same(got, want)


def test_barebones():
    side = Side("ipu", Way(replicas=2))
    trainer = pl.Trainer(accelerator="ipu", devices=2, max_epochs=1, barebones=True)
    trainer.fit(Net(), side.loader())
    assert trainer.global_step == 4


def test_everything_that_can_be_enabled(tmp_path):
    side = Side("ipu", Way(replicas=2))
    trainer = side.trainer(
        default_root_dir=tmp_path,
        logger=True,
        enable_checkpointing=True,
        enable_progress_bar=True,
        enable_model_summary=True,
        log_every_n_steps=1,
    )

    class Shows(Net):
        def __init__(self):
            super().__init__()
            self.example_input_array = torch.randn(2, 6)

        def forward(self, x):
            return self.body(x)

    trainer.fit(Shows(), side.loader(), side.loader(data(8)))
    assert list(tmp_path.rglob("*.ckpt"))


def test_sync_batchnorm_with_replicas_is_refused_with_a_way_out():
    side = Side("ipu", Way(replicas=2))
    with pytest.raises(Exception, match=r"sync_batchnorm=True\) with 2 replicas.*each replica's micro-batch.*GroupNorm"):
        side.trainer(sync_batchnorm=True).fit(Net(), side.loader())


@pytest.mark.parametrize("iterations, batches", [(1, "batch 2"), (4, "batches 0 to 3")])
def test_detect_anomaly_names_the_batch_and_the_operation(iterations, batches):
    class Breaks(Net):
        def training_step(self, batch, batch_idx):
            return super().training_step(batch, batch_idx) / (batch_idx - 2.0)

    side = Side("ipu", Way(1, 1, iterations))
    with pytest.raises(RuntimeError, match=rf"detect_anomaly=True\): in {batches} .*division by zero by aten.div"):
        side.trainer(detect_anomaly=True).fit(Breaks(), side.loader())


@pytest.mark.parametrize("profiler", ["simple", "advanced", "pytorch"])
def test_profiler(profiler, tmp_path):
    side = Side("ipu", Way(replicas=2))
    trainer = side.trainer(profiler=profiler, max_epochs=1, default_root_dir=tmp_path)
    trainer.fit(Net(), side.loader(), side.loader(data(8)))
    assert trainer.global_step == 4


def test_lr_find():
    from importlib import import_module

    tuner = import_module(f"{pl.__name__}.tuner").Tuner

    class Rated(Net):
        def __init__(self):
            super().__init__()
            self.lr = 0.01

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=self.lr)

    def run(side):
        module = Rated()
        before = weights(module)
        found = tuner(side.trainer()).lr_find(module, side.loader(data(160)), num_training=15)
        assert_same(weights(module), before, 0.0)
        return found.results["lr"], found.results["loss"]

    os.environ["PL_NO_TIPS"] = "1"
    want, got = on_both(run, Way(replicas=2))
    assert_same(got, want)


@pytest.mark.parametrize("mode", ["power", "binsearch"])
def test_scale_batch_size(mode):
    from importlib import import_module

    tuner = import_module(f"{pl.__name__}.tuner").Tuner

    class Sized(Net):
        def __init__(self):
            super().__init__()
            self.batch_size = 2

        def train_dataloader(self):
            return torch.utils.data.DataLoader(data(64), batch_size=self.batch_size)

        val_dataloader = train_dataloader  # Lightning asks for it whatever limit_val_batches says

    def run(side):
        return tuner(side.trainer(limit_val_batches=0)).scale_batch_size(Sized(), max_trials=3, steps_per_trial=2, mode=mode)

    want, got = on_both(run)
    assert got == want


class Data(pl.LightningDataModule):
    """For LightningCLI, which makes it from the configuration."""

    def __init__(self, batch_size: int = 4) -> None:
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self):
        return torch.utils.data.DataLoader(data(), batch_size=self.batch_size)

    def val_dataloader(self):
        return torch.utils.data.DataLoader(data(10), batch_size=self.batch_size)


class Wide(Net):
    def __init__(self, width: int = 8) -> None:
        super().__init__()


CONFIG = """
trainer:
  accelerator: {accelerator}
  devices: {devices}
  max_epochs: 2
  logger: false
  enable_checkpointing: false
  enable_progress_bar: false
  {strategy}
data:
  batch_size: {batch}
"""


def test_lightning_cli_with_yaml(tmp_path, monkeypatch):
    pytest.importorskip("jsonargparse", reason="LightningCLI needs jsonargparse")
    cli = importlib.import_module(f"{pl.__name__}.cli")
    strategies = {"cpu": "strategy: auto", "ipu": "strategy: {class_path: lightning_ipu.IPUStrategy, init_args: {device_iterations: 2}}"}

    def run(accelerator, devices, batch):
        file = tmp_path / f"{accelerator}.yaml"
        file.write_text(
            CONFIG.format(accelerator=accelerator, devices=devices, batch=batch, strategy=strategies[accelerator]), encoding="utf-8"
        )
        monkeypatch.setattr(sys, "argv", ["program.py", "fit", "--config", str(file)])
        return cli.LightningCLI(Wide, Data, seed_everything_default=1, save_config_callback=None)

    cpu, ipu = run("cpu", 1, 8), run("ipu", 2, 4)
    assert type(ipu.trainer.strategy).__name__ == "IPUStrategy" and ipu.trainer.strategy.device_iterations == 2
    assert cpu.trainer.global_step == ipu.trainer.global_step == 8
    assert_same(weights(ipu.model), weights(cpu.model))


def test_a_module_can_be_fitted_again_and_by_other_trainers():
    def run(side):
        module = Net()
        for _ in range(2):
            side.trainer(max_epochs=1).fit(module, side.loader())
        trainer = side.trainer(max_epochs=1)
        trainer.fit(module, side.loader(), side.loader(data(8)))
        trainer.test(module, side.loader(data(9)), verbose=False)
        trainer.fit_loop.max_epochs = 2
        trainer.fit(module, side.loader(), side.loader(data(8)))
        return weights(module), trainer.global_step, torch.cat(trainer.predict(module, side.loader(data(9))))

    want, got = on_both(run, TOGETHER)
    assert_same(got, want)


def test_a_trainer_within_a_trainer():
    class Nested(Net):
        def on_train_epoch_end(self):
            inner = Side(self.side.accelerator, self.side.way)
            other = Net()
            inner.trainer(max_epochs=1).fit(other, inner.loader())
            self.found.append(weights(other))

    def run(side):
        module = Nested()
        module.side, module.found = side, []
        side.trainer().fit(module, side.loader())
        return weights(module), module.found

    want, got = on_both(run)
    assert_same(got, want)


def test_an_error_in_a_hook_frees_the_devices_for_the_next_run():
    class Breaks(Net):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            if batch_idx == 2:
                raise RuntimeError("the user's own error")

    side = Side("ipu", Way(replicas=2))
    module = Breaks()
    with pytest.raises(RuntimeError, match="the user's own error"):
        side.trainer().fit(module, side.loader())
    again = Net()
    again.load_state_dict(module.state_dict())
    side.trainer(logger=Memory()).fit(again, side.loader())
