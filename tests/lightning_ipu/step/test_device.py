"""Weights between host and device: current for whoever reads, and copied no more often than that takes."""

import copy
import warnings

import lightning.pytorch as pl
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lightning_ipu import IPUStrategy, poptorch

QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 2)
        self.norm = nn.BatchNorm1d(4)

    def training_step(self, batch, batch_idx):
        return F.mse_loss(self.lin(self.norm(batch[0])), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("v", F.mse_loss(self.lin(self.norm(batch[0])), batch[1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def loader(n=24):
    generator = torch.Generator().manual_seed(2)
    return DataLoader(TensorDataset(torch.randn(n, 4, generator=generator), torch.randn(n, 2, generator=generator)), batch_size=4)


def fit(accelerator, *callbacks, epochs=2, val=None, n=24, **flags):
    torch.manual_seed(1)
    net = Net()
    trainer = pl.Trainer(accelerator=accelerator, devices=1, max_epochs=epochs, callbacks=list(callbacks), **{**QUIET, **flags})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(net, loader(n), val)
    return net


@pytest.fixture
def copies(monkeypatch):
    """Counts of copies in each direction, over all executors."""
    counted = {"to_host": 0, "to_device": 0}

    def counting(name, key):
        method = getattr(poptorch.PoplarExecutor, name)

        def call(self):
            counted[key] += 1
            return method(self)

        monkeypatch.setattr(poptorch.PoplarExecutor, name, call)

    counting("copyWeightsToHost", "to_host")
    counting("copyWeightsToDevice", "to_device")
    return counted


def test_training_copies_weights_once_at_the_end(copies):
    fit("ipu", epochs=3)
    assert copies == {"to_host": 1, "to_device": 0}


def test_validation_costs_one_copy_each_way_per_epoch(copies):
    fit("ipu", epochs=3, val=loader(), num_sanity_val_steps=0)
    assert copies["to_host"] == 3
    # To the validation program from the second epoch on, where PopTorch may do it once more, and back to the training program before that.
    assert copies["to_device"] <= 2 * 3


class Reader(pl.Callback):
    """Reads the weights after every ``every``-th batch."""

    def __init__(self, every):
        self.every, self.seen = every, []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if batch_idx % self.every == 0:
            self.seen.append(copy.deepcopy(module.state_dict()))


def test_readers_see_the_weights_of_that_step(copies):
    ours, theirs = Reader(2), Reader(2)
    fit("ipu", ours)
    assert copies["to_host"] == 1 + len(ours.seen)
    fit("cpu", theirs)
    for got, want in zip(ours.seen, theirs.seen):
        for name in want:
            torch.testing.assert_close(got[name], want[name], rtol=1e-5, atol=1e-6)


class Editor(pl.Callback):
    """Changes weights, statistics and the bias in ways that callbacks do."""

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if batch_idx == 1:
            module.lin.bias.data.zero_()
        if batch_idx == 3:
            with torch.no_grad():
                module.lin.weight.mul_(0.5)

    def on_train_epoch_end(self, trainer, module):
        module.norm.reset_running_stats()
        state = module.state_dict()
        state["lin.weight"] = state["lin.weight"] + 0.1
        module.load_state_dict(state)


class Rebinder(pl.Callback):
    """Puts new tensors in the place of buffers."""

    def on_train_epoch_start(self, trainer, module):
        module.norm.running_mean = torch.ones(4)


@pytest.mark.parametrize("callback", [Editor, Rebinder])
@pytest.mark.parametrize("n", [24, 26])  # 26: the short batch at the end has a program of its own
def test_edits_of_callbacks_reach_the_device(callback, n):
    got, want = fit("ipu", callback(), epochs=3, n=n), fit("cpu", callback(), epochs=3, n=n)
    for name, value in want.state_dict().items():
        torch.testing.assert_close(got.state_dict()[name], value, rtol=1e-5, atol=1e-6)


def test_parameter_objects_stay_and_are_plain_afterwards():
    class Identity(pl.Callback):
        def on_fit_start(self, trainer, module):
            self.before = [id(p) for p in module.parameters()]

        def on_fit_end(self, trainer, module):
            assert [id(p) for p in module.parameters()] == self.before

    net = fit("ipu", Identity())
    assert all(type(p) is nn.Parameter for p in net.parameters())
    assert all(type(b) is torch.Tensor for b in net.buffers())


def test_copies_of_the_module_made_in_training_are_plain():
    class Copying(pl.Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            self.copy = copy.deepcopy(module)

    callback = Copying()
    net = fit("ipu", callback)
    assert all(type(p) is nn.Parameter for p in callback.copy.parameters())
    torch.testing.assert_close(callback.copy.lin.weight, net.lin.weight)


class Boom(pl.Callback):
    """Raises in the hook of that name."""

    def __init__(self, hook):
        setattr(self, hook, self._raise)

    def _raise(self, *args, **kwargs):
        raise ZeroDivisionError("mine")


@pytest.mark.parametrize("hook", ["on_fit_start", "on_train_batch_end", "on_validation_batch_end", "on_train_end"])
def test_an_error_leaves_a_plain_module_and_a_free_device(hook):
    net = Net()
    trainer = pl.Trainer(accelerator="ipu", devices=1, max_epochs=1, callbacks=[Boom(hook)], **QUIET)
    with pytest.raises(ZeroDivisionError, match="mine"):
        trainer.fit(net, loader(), loader())
    assert all(type(p) is nn.Parameter for p in net.parameters())
    assert trainer.strategy.device is None
    assert trainer.accumulate_grad_batches == 1
    pl.Trainer(accelerator="ipu", devices=2, max_epochs=1, **QUIET).fit(net, loader(), loader())


def test_an_error_while_the_device_is_released_does_not_hide_the_users(monkeypatch, caplog):
    def destroy(self):
        raise RuntimeError("cannot be destroyed")

    trainer = pl.Trainer(accelerator="ipu", devices=1, max_epochs=1, callbacks=[Boom("on_train_batch_end")], **QUIET)
    monkeypatch.setattr(poptorch.PoplarExecutor, "destroy", destroy)
    with pytest.raises(ZeroDivisionError, match="mine"):
        trainer.fit(Net(), loader())


def test_the_trainers_own_flags_are_back_after_a_run():
    net = Net()
    trainer = pl.Trainer(accelerator="ipu", devices=1, max_epochs=1, accumulate_grad_batches=3, strategy=IPUStrategy(), **QUIET)
    trainer.fit(net, loader())
    assert trainer.accumulate_grad_batches == 3
    assert trainer.fit_loop._skip_backward is False
    assert callable(net.optimizer_zero_grad)
