"""What steps return: outputs in hooks and callbacks, and predictions."""

import pytest
import torch
from torch import nn

from tests.lightning_ipu.trainer.oracle import ALONE, TOGETHER, WAYS, Net, Side, Way, assert_same, data, on_both, pl


class Returns(Net):
    """A step with outputs of every kind."""

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.body(x)
        loss = nn.functional.cross_entropy(logits, y)
        return {
            "loss": loss,
            "logits": logits.detach(),
            "nested": [{"y": y}, (x.mean(), x.sum(), x.max())],
            "hits": (logits.argmax(1) == y).sum(),
            "name": "kept",
            "number": 3,
            "nothing": None,
        }


class Keep(pl.Callback):
    """Keeps outputs of training."""

    def __init__(self):
        self.outputs = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.outputs.append(outputs)


@pytest.mark.parametrize("replicas", [1, 2])
def test_training_outputs_keep_their_structure_and_are_the_cpus(replicas):
    def run(side):
        keep = Keep()
        side.trainer(callbacks=keep).fit(Returns(), side.loader())
        return [{name: value for name, value in output.items() if value is not None} for output in keep.outputs]

    want, got = on_both(run, Way(replicas=replicas))
    assert_same(got, want)


def test_the_loss_is_of_the_last_update_and_rows_are_of_the_whole_host_batch_in_order():
    keep, on_cpu = Keep(), Keep()
    ipu, cpu = Side("ipu", TOGETHER), Side("cpu", TOGETHER)
    ipu.trainer(callbacks=keep, max_epochs=1).fit(Returns(), ipu.loader())
    cpu.trainer(callbacks=on_cpu, max_epochs=1).fit(Returns(), cpu.loader())
    (output,) = keep.outputs
    rows = data().tensors
    # The CPU's last update is made of its last two batches.
    last = torch.stack([one["loss"] for one in on_cpu.outputs[-2:]]).mean() * 2  # Lightning divides by G
    assert output["loss"].shape == ()
    assert_same(output["loss"], last)
    assert torch.equal(output["nested"][0]["y"], rows[1])
    assert_same(output["logits"], torch.cat([one["logits"] for one in on_cpu.outputs]))


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_predictions_hold_every_sample_once_in_order(way):
    def run(side):
        return torch.cat(side.trainer().predict(Net(), side.loader(data(45))))

    want, got = on_both(run, way)
    assert want.shape == (45, 3)
    assert_same(got, want)


@pytest.mark.parametrize("interval", ["batch", "epoch", "batch_and_epoch"])
def test_a_prediction_writer_gets_the_indices_of_its_samples(interval):
    class Writer(pl.callbacks.BasePredictionWriter):
        def __init__(self):
            super().__init__(interval)
            self.seen = []

        def write_on_batch_end(self, trainer, module, prediction, indices, batch, batch_idx, dataloader_idx):
            self.seen.append((prediction, list(indices)))

        def write_on_epoch_end(self, trainer, module, predictions, indices):
            flat = [row for one in indices for row in one]
            self.seen.append((torch.cat(predictions), [i for row in flat for i in row] if isinstance(flat[0], list) else flat))

    def run(side):
        writer = Writer()
        predicted = side.trainer(callbacks=writer).predict(Net(), side.loader(data(10)), return_predictions=False)
        assert predicted is None
        rows = [(i, row) for rows, indices in writer.seen for i, row in zip(indices, rows)]
        return [i for i, _ in rows], torch.stack([row for _, row in rows])

    want, got = on_both(run, Way(replicas=2))
    assert sorted(want[0])[:: 2 if "and" in interval else 1] == list(range(10))
    assert_same(got, want)


def test_predictions_of_several_loaders_are_lists():
    class Both(Net):
        def predict_step(self, batch, batch_idx, dataloader_idx=0):
            return {"out": self.body(batch[0]) + dataloader_idx, "rows": batch[1]}

    def run(side):
        found = side.trainer().predict(Both(), [side.loader(data(10)), side.loader(data(6, seed=2))])
        return [{key: torch.cat([one[key] for one in loader]) for key in loader[0]} for loader in found]

    want, got = on_both(run, Way(2, 1, 2))
    assert_same(got, want)


@pytest.mark.parametrize("stage", ["validation", "test", "predict"])
def test_outputs_of_other_stages_reach_their_hooks(stage):
    class Other(Net):
        def __init__(self):
            super().__init__()
            self.seen = []

        def validation_step(self, batch, batch_idx):
            return {"logits": self.body(batch[0]), "sizes": [batch[0].sum()]}

        test_step = predict_step = validation_step

    setattr(Other, f"on_{stage}_batch_end", lambda self, outputs, batch, batch_idx, dataloader_idx=0: self.seen.append(outputs))

    def run(side):
        module = Other()
        loader = side.loader(data(12))
        verb = {"validation": "validate", "test": "test", "predict": "predict"}[stage]
        getattr(side.trainer(), verb)(module, loader, **({} if stage == "predict" else {"verbose": False}))
        assert isinstance(module.seen[0]["sizes"], list)
        return torch.cat([one["logits"] for one in module.seen])

    want, got = on_both(run, Way(2, 1, 2))
    assert_same(got, want)


def test_outputs_that_a_step_collects_on_itself_are_there_at_the_end_of_the_epoch():
    class Collects(Net):
        def __init__(self):
            super().__init__()
            self.kept, self.found = [], None

        def validation_step(self, batch, batch_idx):
            self.kept.append(self.body(batch[0]))

        def on_validation_epoch_end(self):
            self.found = torch.cat(self.kept)
            self.kept.clear()

    def run(side):
        module = Collects()
        side.trainer(num_sanity_val_steps=0).fit(module, side.loader(), side.loader(data(10)))
        return module.found

    want, got = on_both(run, TOGETHER)
    assert_same(got, want)


def test_a_step_that_returns_none_in_training_is_refused_with_a_way_out():
    class Skips(Net):
        def training_step(self, batch, batch_idx):
            return None

    with pytest.raises(Exception, match=r"training_step returned None.*must return its loss.*multiply the loss by 0"):
        Side("ipu", ALONE).trainer().fit(Skips(), Side("ipu").loader())
