"""Hooks that users override: run on the host as on the CPU, or refused or warned about by name."""

import pytest
import torch

from tests.lightning_ipu.trainer.oracle import ALONE, TOGETHER, Net, Side, Way, assert_same, data, on_both, pl, weights

TRANSFER = {
    "on_before_batch_transfer": lambda self, batch, dataloader_idx: (batch[0] * 2, batch[1]),
    "transfer_batch_to_device": lambda self, batch, device, dataloader_idx: (batch[0].to(device) * 2, batch[1].to(device)),
    "on_after_batch_transfer": lambda self, batch, dataloader_idx: (batch[0] * 2, batch[1]),
}


@pytest.mark.parametrize("way", [ALONE, TOGETHER], ids=str)
@pytest.mark.parametrize("hook", list(TRANSFER))
def test_transfer_hooks_run_on_the_host_in_every_stage(hook, way):
    kind = type("Transfers", (Net,), {hook: TRANSFER[hook]})

    def run(side):
        module = kind()
        trainer = side.trainer()
        trainer.fit(module, side.loader(), side.loader(data(9)))
        predicted = torch.cat(trainer.predict(module, side.loader(data(9))))
        return weights(module), float(trainer.callback_metrics.get("val_loss", 0.0)), predicted

    want, got = on_both(run, way)
    assert_same(got, want)


@pytest.mark.parametrize(
    "hook", ["backward", "on_before_backward", "on_after_backward", "on_before_optimizer_step", "optimizer_zero_grad", "manual_backward"]
)
def test_module_hooks_around_gradients_are_refused_by_name(hook):
    kind = type("Overrides", (Net,), {hook: lambda self, *args, **kwargs: None})
    side = Side("ipu")
    with pytest.raises(
        Exception, match=f"Overrides overrides {hook}, which accelerator='ipu' cannot honour: .*gradients never reach the host"
    ):
        side.trainer().fit(kind(), side.loader())


@pytest.mark.parametrize("hook", ["on_before_backward", "on_after_backward", "on_before_optimizer_step", "on_before_zero_grad"])
def test_callbacks_around_gradients_are_called_and_told_by_name(hook):
    seen = []
    kind = type("Looks", (pl.Callback,), {hook: lambda self, trainer, module, *args: seen.append(hook)})
    side = Side("ipu")
    with pytest.warns(UserWarning, match=f"Looks overrides {hook}.*called after the device has updated.*p.grad is None"):
        side.trainer(callbacks=kind()).fit(Net(), side.loader())
    assert len(seen) == 16


@pytest.mark.parametrize("hook", ["on_after_backward", "on_before_optimizer_step"])
def test_a_callback_that_reads_gradients_gets_the_reason(hook):
    def read(self, trainer, module, *args):
        module.log("norm", module.body[0].weight.grad.norm())

    kind = type("Looks", (pl.Callback,), {hook: read})
    side = Side("ipu")
    with pytest.raises(Exception, match=f"Looks.{hook}.*gradients never reach the host.*p.grad is None"):
        side.trainer(callbacks=kind()).fit(Net(), side.loader())


NAMES = (
    "setup configure_model on_fit_start on_sanity_check_start on_sanity_check_end on_train_start on_train_epoch_start on_train_batch_start "
    "on_train_batch_end on_train_epoch_end on_train_end on_validation_start on_validation_epoch_start on_validation_batch_start "
    "on_validation_batch_end on_validation_epoch_end on_validation_end on_fit_end teardown on_save_checkpoint on_test_start "
    "on_test_batch_start on_test_batch_end on_test_end on_predict_start on_predict_batch_end on_predict_end"
).split()


def test_hooks_come_in_the_order_of_the_cpu():
    def run(side):
        called = []
        kinds = {}
        for who, base in (("module", Net), ("callback", pl.Callback)):
            names = [name for name in NAMES if hasattr(base, name)]
            kinds[who] = type(
                who, (base,), {name: lambda self, *args, who=who, name=name, **kwargs: called.append((who, name)) for name in names}
            )
        module = kinds["module"]()
        trainer = side.trainer(callbacks=kinds["callback"](), max_epochs=2)
        trainer.fit(module, side.loader(), side.loader(data(8)))
        trainer.test(module, side.loader(data(8)), verbose=False)
        trainer.predict(module, side.loader(data(8)))
        return called

    want, got = on_both(run, Way(replicas=2))
    assert ("callback", "on_predict_end") in want
    assert got == want


@pytest.mark.parametrize("way", [ALONE, Way(iterations=2)], ids=str)
def test_a_batch_can_be_skipped_by_its_start_hook(way):
    class Skips(Net):
        def on_train_batch_start(self, batch, batch_idx):
            return -1 if batch_idx == 3 else None

    def run(side):
        module = Skips()
        trainer = side.trainer()
        trainer.fit(module, side.loader(data(64)))
        return weights(module), trainer.global_step

    want, got = on_both(run, ALONE)
    assert_same(got, want)


def test_modes_that_users_set_are_kept():
    class Modes(Net):
        def __init__(self):
            super().__init__()
            self.drop = torch.nn.Dropout(1.0)
            self.seen = []

        def on_train_start(self):
            self.drop.eval()

        def training_step(self, batch, batch_idx):
            x, y = batch
            return torch.nn.functional.cross_entropy(self.body(self.drop(x)), y)

        def on_validation_epoch_end(self):
            self.seen.append((self.training, self.drop.training))

    def run(side):
        module = Modes()
        side.trainer().fit(module, side.loader(), side.loader(data(8)))
        return weights(module), module.seen, module.training, module.drop.training

    want, got = on_both(run)
    assert_same(got, want)
