"""Learning-rate schedules run on the host and reach the device without another capture.

The D updates of one call have the rate that stood when the call began; the schedule advances once for each of them afterwards. The CPU run
that they are compared with holds its rate for D updates likewise.
"""

import pytest
import torch
from torch.optim import lr_scheduler as schedules

from tests.lightning_ipu.trainer.oracle import ALONE, TOGETHER, WAYS, Memory, Net, Side, Way, assert_same, data, on_both, pl, weights

SCHEDULERS = {
    "StepLR": lambda o: schedules.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda o: schedules.MultiStepLR(o, [2, 5], 0.3),
    "ExponentialLR": lambda o: schedules.ExponentialLR(o, 0.9),
    "LambdaLR": lambda o: schedules.LambdaLR(o, lambda k: 1 / (1 + k)),
    "MultiplicativeLR": lambda o: schedules.MultiplicativeLR(o, lambda k: 0.95),
    "ConstantLR": lambda o: schedules.ConstantLR(o, 0.5, total_iters=4),
    "LinearLR": lambda o: schedules.LinearLR(o, 0.1, total_iters=6),
    "PolynomialLR": lambda o: schedules.PolynomialLR(o, total_iters=10, power=2.0),
    "CosineAnnealingLR": lambda o: schedules.CosineAnnealingLR(o, 10),
    "CosineAnnealingWarmRestarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 4),
    "CyclicLR": lambda o: schedules.CyclicLR(o, 0.01, 0.1, step_size_up=3),
    "OneCycleLR": lambda o: schedules.OneCycleLR(o, 0.2, total_steps=20),
    "SequentialLR": lambda o: schedules.SequentialLR(o, [schedules.ConstantLR(o, 0.1, 3), schedules.ExponentialLR(o, 0.9)], [3]),
    "ChainedScheduler": lambda o: schedules.ChainedScheduler([schedules.ConstantLR(o, 0.1, 3), schedules.ExponentialLR(o, 0.9)]),
}


def scheduled(make, way, **config):
    class Scheduled(Net):
        n_captures, waiting, is_held = 0, 0, False

        def training_step(self, batch, batch_idx):
            Scheduled.n_captures += 1
            return super().training_step(batch, batch_idx)

        def lr_scheduler_step(self, scheduler, metric):
            self.waiting += 1
            if not self.is_held:
                self.advance()

        def on_train_batch_end(self, outputs, batch, batch_idx):
            if (batch_idx + 1) % (way.iterations * way.accumulated) == 0:
                self.advance()

        def on_train_epoch_end(self):
            self.advance()

        def advance(self):
            for _ in range(self.waiting):
                self.lr_schedulers().step()
            self.waiting = 0

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
            return [optimizer], [{"scheduler": make(optimizer), **config}]

    return Scheduled


def run_scheduled(way, make, n=48, **config):
    kind = scheduled(make, way, **config)

    def run(side):
        module, memory = kind(), Memory()
        module.is_held = not side.is_ipu and way.iterations > 1
        monitor = pl.callbacks.LearningRateMonitor(logging_interval="step", log_momentum=True)
        trainer = side.trainer(logger=memory, log_every_n_steps=1, callbacks=monitor)
        kind.n_captures = 0
        trainer.fit(module, side.loader(data(n)))
        group = module.optimizers().param_groups[0]
        rates = [line for _, line in memory.lines if way.iterations == 1 and way.accumulated == 1]
        return weights(module), trainer.global_step, float(group["lr"]), float(group["momentum"]), rates

    want, got = on_both(run, way)
    assert kind.n_captures <= 2  # the last run was on the IPU; momentum that becomes zero or not may change the program
    assert_same(got, want)


@pytest.mark.parametrize("name", list(SCHEDULERS))
def test_scheduler_by_step_with_device_iterations_and_replicas(name):
    run_scheduled(Way(2, 1, 2), SCHEDULERS[name], interval="step")


@pytest.mark.parametrize("way", [ALONE, TOGETHER], ids=str)
@pytest.mark.parametrize("name", ["StepLR", "OneCycleLR", "LinearLR"])
def test_scheduler_by_epoch(name, way):
    run_scheduled(way, SCHEDULERS[name], interval="epoch")


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("frequency", [1, 2])
def test_frequency_counts_as_on_the_cpu(frequency, way):
    run_scheduled(way, SCHEDULERS["ExponentialLR"], interval="step", frequency=frequency)


def test_momentum_that_cycles_reaches_the_device():
    run_scheduled(ALONE, lambda o: schedules.OneCycleLR(o, 0.2, total_steps=30, base_momentum=0.5, max_momentum=0.95), interval="step")


@pytest.mark.parametrize("way", [ALONE, TOGETHER], ids=str)
def test_plateau_looks_at_what_was_logged(way):
    class Plateau(Net):
        def validation_step(self, batch, batch_idx):
            self.log("flat", batch[0].mean() * 0 + 1)

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            return {
                "optimizer": optimizer,
                "lr_scheduler": {"scheduler": schedules.ReduceLROnPlateau(optimizer, patience=0, factor=0.5), "monitor": "flat"},
            }

    def run(side):
        module = Plateau()
        side.trainer(max_epochs=4).fit(module, side.loader(), side.loader(data(8)))
        return weights(module), float(module.optimizers().param_groups[0]["lr"])

    want, got = on_both(run, way)
    assert want[1] < 0.1
    assert_same(got, want)


def test_a_scheduler_of_the_users_own_step():
    class Own(Net):
        def lr_scheduler_step(self, scheduler, metric):
            scheduler.step()
            self.optimizers().param_groups[0]["weight_decay"] = 0.01 * self.global_step

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            return [optimizer], [{"scheduler": schedules.StepLR(optimizer, 1, 0.9), "interval": "step"}]

    def run(side):
        module = Own()
        side.trainer().fit(module, side.loader())
        return weights(module)

    want, got = on_both(run)
    assert_same(got, want)


def test_estimated_updates_are_the_updates_that_are_made():
    seen = []

    class Estimates(Net):
        def configure_optimizers(self):
            seen.append(self.trainer.estimated_stepping_batches)
            return super().configure_optimizers()

    for way in WAYS:
        side = Side("ipu", way)
        trainer = side.trainer(max_epochs=3)
        trainer.fit(Estimates(), side.loader(data(51)))
        assert seen[-1] == trainer.global_step, str(way)
