"""Checkpoints: Lightning's own files, bit-exact to continue from, on this accelerator or another."""

import pytest
import torch
from torch import nn

from tests.lightning_ipu.trainer.oracle import ALONE, TOGETHER, Net, Side, Way, assert_same, data, on_both, pl, weights


class Stateful(Net):
    """Everything that a checkpoint has to hold: momenta, a schedule, BatchNorm's buffers, random numbers."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.drop = nn.Dropout(0.2)

    def loss(self, batch):
        x, y = batch
        return nn.functional.cross_entropy(self.body(self.drop(self.norm(x))), y)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.02)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)]


def saving(folder, **arguments):
    return pl.callbacks.ModelCheckpoint(folder, filename="{epoch}-{step}", save_top_k=-1, **arguments)


@pytest.mark.parametrize("way", [ALONE, TOGETHER], ids=str)
def test_a_run_that_is_resumed_ends_with_the_same_bits(way, tmp_path):
    def run(epochs, path=None, **flags):
        torch.manual_seed(3)
        module, side = Stateful(), Side("ipu", way)
        trainer = side.trainer(max_epochs=epochs, **flags)
        if path is not None:
            torch.manual_seed(99)  # numbers of the device are in the file
            module = Stateful()
        trainer.fit(module, side.loader(data(48)), ckpt_path=path)
        return module, trainer

    whole, trainer = run(4, callbacks=saving(tmp_path, every_n_epochs=2), enable_checkpointing=True)
    path = next(tmp_path.glob("epoch=1-*.ckpt"))
    again, resumed = run(4, path)
    assert torch.equal(weights(again), weights(whole))
    assert resumed.global_step == trainer.global_step
    assert again.optimizers().param_groups[0]["lr"] == whole.optimizers().param_groups[0]["lr"]


def test_checkpoints_within_an_epoch_hold_the_weights_of_their_step(tmp_path):
    def run(side):
        folder = tmp_path / side.accelerator
        module = Net()
        keeps = [saving(folder, every_n_train_steps=3, save_last=True)]
        side.trainer(callbacks=keeps, enable_checkpointing=True).fit(module, side.loader(data(40)))
        files = {}
        for path in sorted(folder.glob("*.ckpt")):
            saved = torch.load(path, map_location="cpu")
            momenta = saved["optimizer_states"][0]["state"]
            files[path.name] = {
                "step": saved["global_step"],
                "weights": torch.cat([value.double().flatten() for value in saved["state_dict"].values()]),
                "momenta": torch.cat([momenta[key]["momentum_buffer"].double().flatten() for key in sorted(momenta)]),
            }
        return files

    want, got = on_both(run, Way(replicas=2))
    assert {"last.ckpt", "epoch=0-step=3.ckpt"} <= set(want)
    assert_same(got, want)


@pytest.mark.parametrize("start, then", [("cpu", "ipu"), ("ipu", "cpu")])
def test_a_file_moves_between_accelerators(start, then, tmp_path):
    class Adams(Net):
        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=0.02, eps=1e-4)
            return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)]

    way = Way(replicas=2)
    whole = Adams()
    cpu = Side("cpu", way)
    cpu.trainer(max_epochs=4).fit(whole, cpu.loader())

    first, second = Side(start, way), Side(then, way)
    trainer = first.trainer(max_epochs=2)
    trainer.fit(Adams(), first.loader())
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    module = Adams()
    second.trainer(max_epochs=4).fit(module, second.loader(), ckpt_path=tmp_path / "half.ckpt")
    assert_same(weights(module), weights(whole))


@pytest.mark.parametrize("other", [Way(replicas=4), Way(accumulated=4), Way(2, 2, 2), Way(4, 1, 3)], ids=str)
def test_a_run_is_resumed_with_another_division_of_the_same_batch(other, tmp_path):
    """An update takes 16 rows each time; who takes which of them is another question."""

    def run(way, batch, epochs, path=None):
        module, side = Net(), Side("ipu", way)
        trainer = side.trainer(max_epochs=epochs)
        trainer.fit(module, side.loader(data(64), batch=batch), ckpt_path=path)
        return module, trainer

    whole, _ = run(ALONE, 16, 4)
    _, first = run(ALONE, 16, 2)
    first.save_checkpoint(tmp_path / "half.ckpt")
    again, resumed = run(other, 16 // (other.replicas * other.accumulated), 4, tmp_path / "half.ckpt")
    assert_same(weights(again), weights(whole))
    assert resumed.global_step == 16


def test_load_from_checkpoint_needs_no_ipu_and_files_hold_plain_tensors(tmp_path):
    side = Side("ipu")
    module, trainer = Net(), side.trainer()
    trainer.fit(module, side.loader())
    trainer.save_checkpoint(tmp_path / "whole.ckpt")
    trainer.save_checkpoint(tmp_path / "weights.ckpt", weights_only=True)
    for name in ("whole", "weights"):
        loaded = Net.load_from_checkpoint(tmp_path / f"{name}.ckpt")
        assert torch.equal(weights(loaded), weights(module))
    saved = torch.load(tmp_path / "whole.ckpt", weights_only=True)
    assert "optimizer_states" in saved
    assert "optimizer_states" not in torch.load(tmp_path / "weights.ckpt", weights_only=True)
    plain = torch.optim.SGD(Net().parameters(), lr=0.1, momentum=0.9)
    plain.load_state_dict(saved["optimizer_states"][0])
    assert len(plain.state) == 4


@pytest.mark.parametrize("verb", ["validate", "test", "predict"])
def test_other_stages_load_a_file(verb, tmp_path):
    side = Side("ipu", Way(replicas=2))
    module, trainer = Net(), side.trainer()
    trainer.fit(module, side.loader())
    trainer.save_checkpoint(tmp_path / "some.ckpt")
    extra = {} if verb == "predict" else {"verbose": False}
    got = getattr(side.trainer(), verb)(Net(), side.loader(data(9)), ckpt_path=tmp_path / "some.ckpt", **extra)
    cpu = Side("cpu", Way(replicas=2))
    want = getattr(cpu.trainer(), verb)(module, cpu.loader(data(9)), **extra)
    assert_same(torch.cat(got), torch.cat(want)) if verb == "predict" else assert_same(got, want)


def test_hooks_see_and_change_what_is_saved(tmp_path):
    class Hooked(Net):
        def on_save_checkpoint(self, checkpoint):
            checkpoint["sum"] = float(weights(self).sum())

        def on_load_checkpoint(self, checkpoint):
            self.loaded = checkpoint["sum"]

    side = Side("ipu")
    module, trainer = Hooked(), side.trainer()
    trainer.fit(module, side.loader())
    trainer.save_checkpoint(tmp_path / "hooked.ckpt")
    again = Hooked()
    side.trainer(max_epochs=3).fit(again, side.loader(), ckpt_path=tmp_path / "hooked.ckpt")
    assert again.loaded == pytest.approx(float(weights(module).sum()), rel=1e-6)


def test_a_run_that_an_interrupt_ends_keeps_its_weights_and_state(tmp_path):
    class Interrupted(Net):
        stops = True

        def on_train_batch_end(self, outputs, batch, batch_idx):
            if batch_idx == 3 and self.stops:
                raise KeyboardInterrupt

    def run(side):
        module = Interrupted()
        trainer = side.trainer()
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            trainer.fit(module, side.loader())
            raise KeyboardInterrupt  # older versions of Lightning return
        after = weights(module)
        trainer.save_checkpoint(tmp_path / f"{side.accelerator}.ckpt")
        state = torch.load(tmp_path / f"{side.accelerator}.ckpt", map_location="cpu")["optimizer_states"][0]["state"]
        module.stops = False
        side.trainer(max_epochs=1).fit(module, side.loader())
        return after, state[0]["momentum_buffer"], weights(module)

    want, got = on_both(run)
    assert_same(got, want)


SHAPES = [Way(iterations=3), Way(accumulated=2), Way(2, 2, 2)]


class Counted(Net):
    """Keeps which batch of which epoch each update began with."""

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("batch_idx", torch.zeros_like(loss) + batch_idx, on_step=False, on_epoch=True, reduce_fx="sum")
        return loss + loss * batch_idx * 0.01

    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        # Counts updates and changes nothing: one call of the device has one learning rate.
        return [optimizer], [{"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1000), "interval": "step"}]


def stopped_and_continued(first, second, folder, *, batch, n=88, every=6):
    """What the run ends with that ``second`` continues where ``first`` wrote a file within an epoch of 11 updates."""
    folder.mkdir(parents=True, exist_ok=True)
    keeps = saving(folder, every_n_train_steps=every)
    first.trainer(callbacks=keeps, enable_checkpointing=True, max_epochs=1).fit(Counted(), first.loader(data(n), batch=batch))
    path = sorted(folder.glob(f"*step={every}.ckpt"))[0]
    module, trainer = Counted(), second.trainer(max_epochs=2)
    trainer.fit(module, second.loader(data(n), batch=batch), ckpt_path=path)
    state = torch.load(path, map_location="cpu", weights_only=False)["loops"]["fit_loop"]["epoch_loop.batch_progress"]
    n_steps = module.lr_schedulers().last_epoch
    return weights(module), trainer.global_step, n_steps, float(trainer.callback_metrics["batch_idx"]), state


@pytest.mark.parametrize("way", SHAPES, ids=str)
def test_a_file_from_within_an_epoch_counts_batches_as_the_cpu_does_and_moves(way, tmp_path):
    batch = 8 // (way.replicas * way.accumulated)
    want = stopped_and_continued(Side("cpu", way), Side("cpu", way), tmp_path / "cc", batch=batch)
    for first, second in (("cpu", "ipu"), ("ipu", "cpu"), ("ipu", "ipu")):
        got = stopped_and_continued(Side(first, way), Side(second, way), tmp_path / (first + second), batch=batch)
        assert_same(got[1:], want[1:])
        # Versions of Lightning that repeat the last batch make an update of that one alone on the CPU.
        if way.accumulated == 1 or hasattr(pl.Trainer().fit_loop.epoch_loop, "restarted_on_train_batch_end"):
            assert_same(got[0], want[0])


@pytest.mark.parametrize("every", [1, 3, 11])
@pytest.mark.parametrize("iterations", [2, 3, 4])
def test_a_file_that_ends_within_a_host_batch_is_continued_with_the_updates_that_were_missing(iterations, every, tmp_path):
    cpu, ipu = Side("cpu"), Side("ipu", Way(iterations=iterations))
    want = stopped_and_continued(cpu, cpu, tmp_path / "cc", batch=8, every=every)
    got = stopped_and_continued(cpu, ipu, tmp_path / "ci", batch=8, every=every)
    assert_same(got, want)


def test_a_file_from_within_an_epoch_is_continued_with_another_division_of_the_same_update(tmp_path):
    def run(way, batch, path=None):
        module, side = Net(), Side("ipu", way)
        keeps = [] if path else [saving(tmp_path, every_n_train_steps=4)]
        trainer = side.trainer(callbacks=keeps, enable_checkpointing=not path)
        trainer.fit(module, side.loader(data(96), batch=batch), ckpt_path=path)
        return weights(module), trainer.global_step

    run(Way(replicas=4), 4)
    path = next(tmp_path.glob("*step=4.ckpt"))
    want = run(Way(replicas=4), 4, path)
    for other, batch in ((Way(accumulated=4), 4), (Way(2, 2, 2), 4), (Way(iterations=2), 16)):
        assert_same(run(other, batch, path), want)
