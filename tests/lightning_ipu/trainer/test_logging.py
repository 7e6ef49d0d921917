"""self.log in steps: values, names, weights and loggers are those of a CPU run."""

import pytest
import torch

from tests.lightning_ipu.trainer.oracle import ALONE, TOGETHER, WAYS, Memory, Net, Side, Way, assert_same, data, numbers, on_both, pl


def step_logging(prefix):
    """A step that logs in every way that Lightning knows."""

    def step(self, batch, batch_idx):
        x, y = batch
        loss = self.loss(batch)
        for reduce_fx in ("mean", "sum", "min", "max"):
            self.log(f"{prefix}_{reduce_fx}", loss, reduce_fx=reduce_fx, on_step=False, on_epoch=True)
        self.log(f"{prefix}_both", loss, on_step=True, on_epoch=True, sync_dist=True)
        self.log(f"{prefix}_sized", loss, batch_size=len(x), on_step=False, on_epoch=True)
        self.log(f"{prefix}_number", 3.5, on_step=False, on_epoch=True)
        self.log_dict(
            {f"{prefix}_mean_x": x.mean(), f"{prefix}_hits": (self.body(x).argmax(1) == y).float().mean()}, on_step=False, on_epoch=True
        )
        return loss

    return step


class Logs(Net):
    training_step = step_logging("train")
    validation_step = step_logging("val")
    test_step = step_logging("test")


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_epoch_values_of_training_are_the_cpus(way):
    def run(side):
        trainer = side.trainer(max_epochs=1)
        trainer.fit(Logs(), side.loader(data(48)))
        return {
            name: value
            for name, value in numbers(trainer.callback_metrics).items()
            if way == ALONE or not name.endswith(("_step", "_both"))
        }

    want, got = on_both(run, way)
    assert_same(got, want)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("stage", ["validate", "test"])
def test_epoch_values_elsewhere_are_the_cpus_for_uneven_data(stage, way):
    def run(side):
        trainer = side.trainer()
        (metrics,) = getattr(trainer, stage)(Logs(), side.loader(data(47)), verbose=False)
        return metrics

    want, got = on_both(run, way)
    assert_same(got, want)


@pytest.mark.parametrize("replicas", [1, 2])
def test_step_values_reach_the_logger_at_the_same_steps(replicas):
    def run(side):
        memory = Memory()
        trainer = side.trainer(logger=memory, log_every_n_steps=2)
        trainer.fit(Logs(), side.loader(data(40)), side.loader(data(10)))
        return memory.lines

    want, got = on_both(run, Way(replicas=replicas))
    assert len(want) > 4
    assert_same(got, want)


def test_progress_bar_metrics_are_the_cpus():
    class Bar(Net):
        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            self.log("shown", loss, prog_bar=True)
            self.log("hidden", loss)
            return loss

    def run(side):
        trainer = side.trainer()
        trainer.fit(Bar(), side.loader())
        return numbers(trainer.progress_bar_metrics)

    want, got = on_both(run)
    assert list(want) == ["shown"]
    assert_same(got, want)


@pytest.mark.parametrize("way", [ALONE, TOGETHER], ids=str)
def test_several_validation_loaders_have_their_index_in_the_name(way):
    class Several(Net):
        def validation_step(self, batch, batch_idx, dataloader_idx=0):
            self.log("loss", self.loss(batch))
            self.log(f"own_{dataloader_idx}", batch[0].mean(), add_dataloader_idx=False)

    def run(side):
        trainer = side.trainer(max_epochs=1)
        trainer.fit(Several(), side.loader(), [side.loader(data(16, seed=1)), side.loader(data(10, seed=2))])
        return numbers(trainer.callback_metrics)

    want, got = on_both(run, way)
    assert sorted(want) == ["loss/dataloader_idx_0", "loss/dataloader_idx_1", "own_0", "own_1"]
    assert_same(got, want)


def test_a_python_number_is_logged_as_it_is_now():
    class Counts(Net):
        warm = 0.0

        def on_train_batch_start(self, batch, batch_idx):
            self.warm += 0.5

        def training_step(self, batch, batch_idx):
            self.log("batch", float(batch_idx))
            self.log("epoch", self.current_epoch * 1.0)
            self.log("step", self.global_step * 1.0)
            self.log("warm", self.warm)
            self.log("rate", self.optimizers().param_groups[0]["lr"])
            return self.loss(batch)

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            return [optimizer], [{"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5), "interval": "step"}]

    def run(side):
        memory = Memory()
        side.trainer(logger=memory, log_every_n_steps=1).fit(Counts(), side.loader())
        return memory.lines

    want, got = on_both(run)
    assert len({line["rate"] for _, line in want if "rate" in line}) > 3
    assert_same(got, want)


@pytest.mark.parametrize("way", [ALONE, TOGETHER], ids=str)
def test_early_stopping_and_checkpoints_follow_what_steps_log(way, tmp_path):
    class Watched(Net):
        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            self.log("train_loss", loss, on_step=False, on_epoch=True)
            return loss

    def run(side):
        stop = pl.callbacks.EarlyStopping("train_loss", min_delta=0.05, patience=1)
        best = pl.callbacks.ModelCheckpoint(tmp_path / side.accelerator, monitor="val_loss", filename="{epoch}", save_top_k=1)
        trainer = side.trainer(max_epochs=20, callbacks=[stop, best], enable_checkpointing=True)
        trainer.fit(Watched(), side.loader(), side.loader(data(12)))
        return trainer.current_epoch, best.best_model_path.replace("/ipu/", "/cpu/"), float(best.best_model_score)

    want, got = on_both(run, way)
    assert 1 < want[0] < 20
    assert_same(got, want)


def test_parts_and_callbacks_log_through_the_module():
    class Part(torch.nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            self.owner[0].log("activity", y.abs().mean(), on_step=False, on_epoch=True)
            return y

    class Outer(Net):
        def __init__(self):
            super().__init__()
            part = Part(6, 8)
            part.load_state_dict(self.body[0].state_dict())
            part.owner = (self,)
            self.body[0] = part

    class Callback(pl.Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            module.log("from_callback", outputs["loss"] * 2, on_step=False, on_epoch=True)

    def run(side):
        trainer = side.trainer(callbacks=Callback())
        trainer.fit(Outer(), side.loader())
        return numbers(trainer.callback_metrics)

    want, got = on_both(run, Way(replicas=2))
    assert sorted(want) == ["activity", "from_callback"]
    assert_same(got, want)


@pytest.mark.parametrize("hook", ["on_before_batch_transfer", "on_after_batch_transfer"])
def test_transfer_hooks_refuse_to_log_as_on_the_cpu(hook):
    class Early(Net):
        pass

    def log_early(self, batch, dataloader_idx):
        self.log("early", 1.0)
        return batch

    setattr(Early, hook, log_early)

    def run(side):
        try:
            side.trainer().fit(Early(), side.loader())
        except Exception as error:
            return type(error).__name__, str(error)
        return None

    want, got = on_both(run)
    assert want == got


def test_logging_a_tensor_of_several_numbers_is_an_error():
    class Wide(Net):
        def training_step(self, batch, batch_idx):
            self.log("wide", batch[0])
            return self.loss(batch)

    with pytest.raises(ValueError, match=r"self.log\('wide', \(4, 6\) tensor\).*single element"):
        Side("ipu").trainer().fit(Wide(), Side("ipu").loader())


@pytest.mark.parametrize("hook", ["on_train_epoch_end", "on_validation_epoch_end"])
def test_hooks_log_on_the_host(hook):
    class Hooked(Net):
        pass

    setattr(Hooked, hook, lambda self: self.log("norm", self.body[0].weight.norm()))

    def run(side):
        trainer = side.trainer()
        trainer.fit(Hooked(), side.loader(), side.loader(data(12)))
        return numbers(trainer.callback_metrics)

    want, got = on_both(run)
    assert "norm" in want
    assert_same(got, want)


def test_a_sum_over_weights_is_not_taken_for_a_sum_over_samples():
    class Penalised(Net):
        def training_step(self, batch, batch_idx):
            squares = sum(parameter.pow(2).sum() for parameter in self.parameters())
            largest = self.body[0].weight.abs().max()
            self.log_dict({"squares": squares, "largest": largest, "count": torch.ones(3, dtype=torch.long).sum()}, on_step=True)
            self.log("hits", (batch[1] == 1).sum(), on_step=True, on_epoch=True, reduce_fx="sum")
            return self.loss(batch) + 0.01 * squares

    def run(side):
        trainer = side.trainer()
        trainer.fit(Penalised(), side.loader())
        return numbers(trainer.callback_metrics)

    want, got = on_both(run, Way(replicas=4))
    assert_same(got, want)


class Scores(Net):
    """Logs what is no mean over samples."""

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("perplexity", loss.exp(), on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        hits = self.body(x).argmax(-1) == y
        precision = (hits & (y == 1)).sum() / ((hits & (y == 1)).sum() + (~hits).sum() + 1e-6)
        recall = (hits & (y == 1)).sum() / ((y == 1).sum() + 1e-6)
        error = self.loss(batch)
        total = torch.zeros(())
        total += hits.sum()
        self.log_dict({"rmse": error.sqrt(), "psnr": -10 * torch.log10(error), "f1": 2 * precision * recall / (precision + recall + 1e-8)})
        self.log_dict({"per_element": x.square().sum() / x.numel(), "masked": (x * (x > 0)).sum() / (x > 0).sum().clamp(min=1)})
        self.log("total", total, reduce_fx="sum")


@pytest.mark.parametrize("precision", ["32-true", "16-true"])
@pytest.mark.parametrize("way", [Way(replicas=2), Way(replicas=4), TOGETHER], ids=str)
def test_functions_of_sums_and_means_are_those_of_the_whole_batch(precision, way):
    def run(side):
        module = Scores()
        trainer = side.trainer(max_epochs=1, precision=precision if side.is_ipu else "32-true")
        trainer.fit(module, side.loader(data(48)), side.loader(data(22, seed=9)))
        return numbers(trainer.callback_metrics)

    want, got = on_both(run, way)
    assert_same(got, want, tolerance=1e-5 if precision == "32-true" else 2e-2)


@pytest.mark.parametrize("way", [Way(replicas=2), Way(iterations=4)], ids=str)
def test_a_step_that_only_counts_samples_and_batches_counts_those_of_the_cpu(way):
    class Counts(Net):
        def validation_step(self, batch, batch_idx):
            self.log("samples", float(len(batch[0])), reduce_fx="sum")
            self.log("batches", 1.0, reduce_fx="sum")

        def predict_step(self, batch, batch_idx):
            return batch[0]

    def run(side):
        trainer = side.trainer()
        (counted,) = trainer.validate(Counts(), side.loader(data(22)), verbose=False)
        return counted, torch.cat(trainer.predict(Counts(), side.loader(data(22))))

    want, got = on_both(run, way)
    assert_same(got, want)
    assert want[0]["samples"] == 22
