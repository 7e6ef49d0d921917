"""Metric objects in steps: states on the host, results those of a CPU run."""

import pytest
import torch
from torch import nn
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassAUROC,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
    MulticlassPrecision,
)

from tests.lightning_ipu.trainer.oracle import ALONE, TOGETHER, WAYS, Memory, Net, Side, Way, assert_same, data, numbers, on_both, pl


class Measured(Net):
    """Metrics of all kinds in training and validation."""

    def __init__(self):
        super().__init__()
        for stage in ("train", "val"):
            self.add_module(f"{stage}_accuracy", MulticlassAccuracy(3))
            self.add_module(f"{stage}_mean_loss", MeanMetric())
        self.by_value = nn.ModuleDict({f"of_{stage}": MulticlassF1Score(3) for stage in ("train", "val")})
        # Accuracy, F1 and precision form a compute group: they share one state.
        self.together = MetricCollection([MulticlassAccuracy(3), MulticlassF1Score(3), MulticlassPrecision(3)], prefix="all_")
        self.ranked = MulticlassAUROC(3)

    def measure(self, batch, stage):
        x, y = batch
        logits = self.body(x)
        loss = nn.functional.cross_entropy(logits, y)
        accuracy, mean_loss = getattr(self, f"{stage}_accuracy"), getattr(self, f"{stage}_mean_loss")
        accuracy(logits, y)
        self.log(f"{stage}/accuracy", accuracy, on_step=False, on_epoch=True)
        self.log(f"{stage}/f1", self.by_value[f"of_{stage}"](logits, y), on_step=False, on_epoch=True)
        mean_loss.update(loss, weight=len(x))
        self.log(f"{stage}/mean_loss", mean_loss, on_step=False, on_epoch=True)
        return loss, logits, y

    def training_step(self, batch, batch_idx):
        return self.measure(batch, "train")[0]

    def validation_step(self, batch, batch_idx):
        _, logits, y = self.measure(batch, "val")
        self.together.update(logits, y)
        self.log_dict(self.together)
        self.ranked.update(logits.softmax(-1), y)
        self.log("ranked", self.ranked)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_metrics_of_training_and_validation_are_the_cpus(way):
    def run(side):
        trainer = side.trainer(max_epochs=2)
        trainer.fit(Measured(), side.loader(data(48)), side.loader(data(42)))
        return numbers(trainer.callback_metrics)

    want, got = on_both(run, way)
    assert len(want) == 10
    assert_same(got, want)


def test_step_values_of_a_metric_reach_the_logger():
    class Stepwise(Net):
        def __init__(self):
            super().__init__()
            self.accuracy = MulticlassAccuracy(3)

        def training_step(self, batch, batch_idx):
            x, y = batch
            logits = self.body(x)
            self.accuracy(logits, y)
            self.log("accuracy", self.accuracy, on_step=True, on_epoch=True)
            return nn.functional.cross_entropy(logits, y)

    def run(side):
        memory = Memory()
        side.trainer(logger=memory, log_every_n_steps=1).fit(Stepwise(), side.loader())
        return memory.lines

    want, got = on_both(run, Way(replicas=2))
    assert_same(got, want)


@pytest.mark.parametrize("way", [ALONE, TOGETHER], ids=str)
@pytest.mark.parametrize("stage", ["validate", "test"])
def test_a_metric_computed_in_a_hook_has_seen_every_sample_once(stage, way):
    class Late(Net):
        def __init__(self):
            super().__init__()
            self.matrix = MulticlassConfusionMatrix(3)
            self.found = None

        def validation_step(self, batch, batch_idx):
            x, y = batch
            self.matrix.update(self.body(x), y)

        test_step = validation_step

        def on_validation_epoch_end(self):
            self.found = self.matrix.compute()
            self.matrix.reset()

        on_test_epoch_end = on_validation_epoch_end

    def run(side):
        module = Late()
        getattr(side.trainer(), stage)(module, side.loader(data(45)), verbose=False)
        return module.found

    want, got = on_both(run, way)
    assert want.sum() == 45
    assert_same(got, want)


@pytest.mark.parametrize(
    "use", [lambda value: 1 - value, lambda value: value * 2, float, lambda value: torch.log(value), lambda value: value.item()]
)
def test_arithmetic_on_the_value_of_a_metric_is_refused_with_a_way_out(use):
    class Computes(Net):
        def __init__(self):
            super().__init__()
            self.accuracy = MulticlassAccuracy(3)

        def training_step(self, batch, batch_idx):
            x, y = batch
            logits = self.body(x)
            self.log("error", use(self.accuracy(logits, y)))
            return nn.functional.cross_entropy(logits, y)

    with pytest.raises(Exception, match=r"training_step.*computes with the value of self\.accuracy.*Log it.*instead"):
        Side("ipu").trainer().fit(Computes(), Side("ipu").loader())


def test_metrics_that_are_not_registered_are_the_cpus_or_refused():
    class Hidden(Net):
        def __init__(self):
            super().__init__()
            self.metrics = {"accuracy": MulticlassAccuracy(3)}

        def validation_step(self, batch, batch_idx):
            x, y = batch
            self.metrics["accuracy"].update(self.body(x), y)

        def on_validation_epoch_end(self):
            self.log("accuracy", self.metrics["accuracy"].compute())
            self.metrics["accuracy"].reset()

    def run(side):
        trainer = side.trainer()
        trainer.fit(Hidden(), side.loader(), side.loader(data(12)))
        return numbers(trainer.callback_metrics)

    want, got = on_both(run)
    assert_same(got, want)


def test_metrics_in_a_callback_see_the_outputs_of_the_step():
    class Callback(pl.Callback):
        def __init__(self):
            self.accuracy = MulticlassAccuracy(3)

        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            self.accuracy.update(outputs["logits"], batch[1])

    class Returns(Net):
        def training_step(self, batch, batch_idx):
            logits = self.body(batch[0])
            return {"loss": nn.functional.cross_entropy(logits, batch[1]), "logits": logits.detach()}

    def run(side):
        callback = Callback()
        side.trainer(callbacks=callback).fit(Returns(), side.loader())
        return callback.accuracy.compute()

    want, got = on_both(run, TOGETHER)
    assert_same(got, want)


def test_functional_metrics_are_the_cpus():
    from torchmetrics.functional.classification import multiclass_accuracy

    class Functional(Net):
        def validation_step(self, batch, batch_idx):
            x, y = batch
            self.log("accuracy", multiclass_accuracy(self.body(x), y, num_classes=3, average="micro"))

    def run(side):
        trainer = side.trainer()
        trainer.validate(Functional(), side.loader(data(12)), verbose=False)
        return numbers(trainer.callback_metrics)

    want, got = on_both(run, Way(replicas=2))
    assert_same(got, want)
