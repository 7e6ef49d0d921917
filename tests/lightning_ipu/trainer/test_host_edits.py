"""Callbacks and hooks that change weights, buffers or the optimizer on the host: the device has what they made."""

import pytest
import torch
from torch import nn

from tests.lightning_ipu.trainer.oracle import ALONE, TOGETHER, Net, Side, Way, assert_same, data, on_both, pl, weights

callbacks = pl.callbacks


class Average(pl.Callback):
    """An exponential moving average, put in the place of the weights at the end of each epoch."""

    def on_fit_start(self, trainer, module):
        self.shadow = [parameter.detach().clone() for parameter in module.parameters()]

    def on_train_batch_end(self, trainer, module, *args):
        for kept, parameter in zip(self.shadow, module.parameters()):
            kept.mul_(0.5).add_(parameter.detach(), alpha=0.5)

    def on_train_epoch_end(self, trainer, module):
        for kept, parameter in zip(self.shadow, module.parameters()):
            parameter.data.copy_(kept)


class Unfreeze(callbacks.BaseFinetuning):
    def freeze_before_training(self, module):
        self.freeze(module.body[0])

    def finetune_function(self, module, epoch, optimizer):
        if epoch == 2:
            self.unfreeze_and_add_param_group(module.body[0], optimizer, lr=0.05)


class Fill(pl.Callback):
    def on_train_epoch_end(self, trainer, module):
        with torch.no_grad():
            module.body[0].weight.fill_(0.1 * (1 + trainer.current_epoch))


def pruning(**arguments):
    def make(module):
        return callbacks.ModelPruning(parameters_to_prune=[(module.body[0], "weight"), (module.body[2], "weight")], **arguments)

    return make


EDITS = {
    "moving average": lambda module: Average(),
    "stochastic weight averaging": lambda module: callbacks.StochasticWeightAveraging(swa_lrs=0.05, swa_epoch_start=2),
    "finetuning": lambda module: Unfreeze(),
    "filling": lambda module: Fill(),
    "pruning by size": pruning(pruning_fn="l1_unstructured", amount=0.3),
    "pruning all together": pruning(pruning_fn="l1_unstructured", amount=0.3, use_global_unstructured=True),
    "pruning in structures": pruning(pruning_fn="ln_structured", amount=0.25, pruning_dim=0, pruning_norm=1, use_global_unstructured=False),
    "lottery ticket": pruning(pruning_fn="l1_unstructured", amount=0.3, use_lottery_ticket_hypothesis=True),
    "pruning that stays": pruning(pruning_fn="l1_unstructured", amount=0.3, make_pruning_permanent=False),
}
if hasattr(callbacks, "WeightAveraging"):
    EDITS["weight averaging"] = lambda module: callbacks.WeightAveraging()
    EDITS["EMA weight averaging"] = lambda module: callbacks.EMAWeightAveraging(decay=0.8)


class Tuned(Net):
    def configure_optimizers(self):
        return torch.optim.SGD([p for p in self.parameters() if p.requires_grad], lr=0.1, momentum=0.9)


# Averages that a callback takes after every call see one of the D updates of a call, so they are not the CPU's.
AFTER_EVERY_CALL = ("moving average", "weight averaging", "EMA weight averaging")
RUNS = [(edit, way) for edit in EDITS for way in (Way(replicas=2), Way(1, 2, 2)) if way.iterations == 1 or edit not in AFTER_EVERY_CALL]


@pytest.mark.parametrize("edit, way", RUNS, ids=str)
def test_edit(edit, way):
    def run(side):
        module = Tuned()
        trainer = side.trainer(max_epochs=4, callbacks=EDITS[edit](module))
        trainer.fit(module, side.loader(), side.loader(data(8)))
        return weights(module), float(trainer.callback_metrics["val_loss"])

    want, got = on_both(run, way)
    assert_same(got, want)


def test_parameter_objects_are_never_replaced():
    module, side = Net(), Side("ipu", TOGETHER)
    before = list(module.parameters())
    side.trainer().fit(module, side.loader(), side.loader(data(8)))
    assert all(one is other for one, other in zip(module.parameters(), before))


class Tied(Net):
    def __init__(self):
        super().__init__()
        self.again = nn.Linear(6, 8)
        self.again.weight = self.body[0].weight

    def loss(self, batch):
        x, y = batch
        return super().loss(batch) + self.again(x).pow(2).mean()


@pytest.mark.parametrize("way", [ALONE, TOGETHER], ids=str)
def test_tied_weights_stay_tied(way):
    def run(side):
        module = Tied()
        side.trainer(callbacks=Fill()).fit(module, side.loader(), side.loader(data(8)))
        assert module.again.weight is module.body[0].weight
        return weights(module)

    want, got = on_both(run, way)
    assert_same(got, want)


def test_a_buffer_that_a_hook_changes_before_each_batch():
    class Paced(Net):
        def __init__(self):
            super().__init__()
            self.register_buffer("pace", torch.tensor(1.0))

        def on_train_batch_start(self, batch, batch_idx):
            self.pace.fill_(1.0 + batch_idx)

        def training_step(self, batch, batch_idx):
            return super().training_step(batch, batch_idx) * self.pace

    def run(side):
        module = Paced()
        side.trainer().fit(module, side.loader())
        return weights(module)

    want, got = on_both(run, Way(replicas=2))
    assert_same(got, want)


def test_buffers_that_count_in_the_step():
    class Counting(Net):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros((), dtype=torch.long))
            self.register_buffer("mean", torch.zeros(6))

        def training_step(self, batch, batch_idx):
            self.seen += 1
            self.mean.mul_(0.9).add_(batch[0].mean(0), alpha=0.1)
            return super().training_step(batch, batch_idx) + self.seen * 1e-3 * self.body[0].weight.sum()

    def run(side):
        module = Counting()
        side.trainer().fit(module, side.loader(), side.loader(data(8)))
        return weights(module), int(module.seen)

    want, got = on_both(run, Way(iterations=2))
    assert want[1] == 16
    assert_same(got, want)


def test_a_parameter_that_a_hook_replaces():
    class Replaced(Net):
        def on_train_epoch_start(self):
            if self.current_epoch == 1:
                with torch.no_grad():
                    self.body[2].weight.data = torch.zeros_like(self.body[2].weight)

    def run(side):
        module = Replaced()
        side.trainer(max_epochs=3).fit(module, side.loader())
        return weights(module)

    want, got = on_both(run)
    assert_same(got, want)


def test_freezing_by_hand_in_a_hook():
    class Freezes(Net):
        def on_train_epoch_start(self):
            self.body[0].requires_grad_(self.current_epoch != 1)

    def run(side):
        module = Freezes()
        side.trainer(max_epochs=3).fit(module, side.loader())
        return weights(module)

    want, got = on_both(run)
    assert_same(got, want)


def test_a_learning_rate_set_by_hand():
    class Sets(Net):
        def on_train_batch_start(self, batch, batch_idx):
            self.optimizers().param_groups[0]["lr"] = 0.1 / (1 + batch_idx)

    def run(side):
        module = Sets()
        side.trainer().fit(module, side.loader())
        return weights(module)

    want, got = on_both(run)
    assert_same(got, want)


def test_frozen_parts_in_eval_keep_their_statistics():
    class Backbone(Net):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.5))
            self.stem.requires_grad_(False)

        def on_train_epoch_start(self):
            self.stem.eval()

        def loss(self, batch):
            return super().loss((self.stem(batch[0]), batch[1]))

    def run(side):
        module = Backbone()
        side.trainer().fit(module, side.loader(), side.loader(data(8)))
        return weights(module)

    want, got = on_both(run, Way(replicas=2))
    assert_same(got, want)
