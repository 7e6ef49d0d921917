"""What an IPU cannot honour is refused by name before training, or warned about."""

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import lightning_ipu  # noqa: F401

QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 2)
        self.ran = 0

    def training_step(self, batch, batch_idx):
        return F.mse_loss(self.lin(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(net, callbacks=(), **flags):
    data = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 2)), batch_size=4)
    trainer = pl.Trainer(accelerator="ipu", devices=1, max_epochs=1, callbacks=list(callbacks), **QUIET, **flags)
    trainer.fit(net, data)
    return trainer


@pytest.mark.parametrize("hook", ["backward", "manual_backward"])
def test_overridden_hooks_are_refused_by_name(hook):
    net = type("Own", (Net,), {hook: lambda self, *args, **kwargs: None})()
    before = net.lin.weight.detach().clone()
    with pytest.raises(MisconfigurationException, match=f"Own overrides {hook}, which accelerator='ipu' cannot honour"):
        fit(net)
    assert torch.equal(net.lin.weight, before)


def test_manual_optimization_is_refused():
    net = Net()
    net.automatic_optimization = False
    with pytest.raises(MisconfigurationException, match="sets automatic_optimization=False"):
        fit(net)


def test_a_step_that_fetches_its_own_batches_is_refused():
    class Own(Net):
        def training_step(self, dataloader_iter):
            """Fetches."""

    with pytest.raises(MisconfigurationException, match=r"training_step\(dataloader_iter\) fetches its own batches"):
        fit(Own())


def test_a_step_without_a_loss_is_refused():
    for returned in (None, {"no": torch.ones(())}, 3):
        net = type("Own", (Net,), {"training_step": lambda self, batch, batch_idx, returned=returned: returned})()
        with pytest.raises(MisconfigurationException, match="each must return its loss"):
            fit(net)


def test_sync_batchnorm_over_replicas_is_refused():
    data = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 2)), batch_size=4)
    trainer = pl.Trainer(accelerator="ipu", devices=2, max_epochs=1, sync_batchnorm=True, **QUIET)
    with pytest.raises(MisconfigurationException, match="statistics of BatchNorm are those of each replica"):
        trainer.fit(Net(), data)


@pytest.mark.parametrize("hook", ["on_before_zero_grad", "on_before_backward", "on_after_backward", "on_before_optimizer_step"])
def test_callbacks_around_the_update_are_called_and_the_price_is_told(hook):
    calls = []
    own = type("Own", (pl.Callback,), {hook: lambda self, *args: calls.append(args)})()
    with pytest.warns(UserWarning, match=f"Own overrides {hook}, and gradients are on the device. So the host makes the updates"):
        trainer = fit(Net(), [own])
    assert len(calls) == trainer.global_step == 2


def test_an_own_optimizer_step_is_honoured():
    class Own(Net):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
            self.ran += 1
            optimizer.param_groups[0]["lr"] = 0.0
            optimizer.step(closure=optimizer_closure)

    net = Own()
    before = net.lin.weight.detach().clone()
    fit(net)
    assert net.ran == 2
    assert torch.equal(net.lin.weight, before)


def test_a_closure_outside_an_optimizer_step_is_refused():
    class Own(Net):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
            optimizer_closure()

    with pytest.raises(MisconfigurationException, match="called the closure itself, outside optimizer.step"):
        fit(Own())
