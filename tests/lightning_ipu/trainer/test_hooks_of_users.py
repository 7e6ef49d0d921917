"""Hooks that users override: run on the host as on the CPU, or refused or warned about by name."""

import pytest
import torch

import lightning_ipu
from lightning_ipu import poptorch
from tests.lightning_ipu.trainer.oracle import ALONE, TOGETHER, WAYS, Memory, Net, Side, Way, assert_same, data, on_both, pl, weights

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


@pytest.mark.parametrize("hook", ["backward", "manual_backward"])
def test_module_hooks_around_gradients_are_refused_by_name(hook):
    kind = type("Overrides", (Net,), {hook: lambda self, *args, **kwargs: None})
    side = Side("ipu")
    with pytest.raises(Exception, match=f"Overrides overrides {hook}, which accelerator='ipu' cannot honour: .*run on the device"):
        side.trainer().fit(kind(), side.loader())


class Watched(Net):
    """Writes down what it sees in each hook around backward and update, and changes gradients in one."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def see(self, hook, *more):
        gradient = self.body[0].weight.grad
        norm = None if gradient is None else float(gradient.norm())
        self.seen.append((hook, self.trainer.global_step, norm, float(weights(self).sum()), *more))

    def on_before_zero_grad(self, optimizer):
        self.see("on_before_zero_grad")

    def on_before_backward(self, loss):
        self.see("on_before_backward", float(loss))

    def on_after_backward(self):
        self.see("on_after_backward")
        self.body[2].bias.grad[0] = 0.5

    def on_before_optimizer_step(self, optimizer):
        self.see("on_before_optimizer_step", type(optimizer).__name__)
        self.log("norm", self.body[0].weight.grad.norm())


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_hooks_around_gradients_see_and_change_what_they_do_on_the_cpu(way):
    def run(side):
        module, memory = Watched(), Memory()
        trainer = side.trainer(logger=memory, log_every_n_steps=1)
        trainer.fit(module, side.loader(data(52)))
        return module.seen, weights(module), memory.lines if way.iterations == 1 else None

    want, got = on_both(run, way)
    assert_same(got, want)
    assert any(line[0] == "on_after_backward" and line[2] > 0 for line in want[0])


@pytest.mark.parametrize("way", [ALONE, TOGETHER], ids=str)
@pytest.mark.parametrize("hook", ["on_before_backward", "on_after_backward", "on_before_optimizer_step", "on_before_zero_grad"])
def test_callbacks_around_gradients_see_what_they_do_on_the_cpu(hook, way):
    def run(side):
        seen = []

        def see(trainer, module, *args):
            seen.append([p.grad.norm() for p in module.parameters() if p.grad is not None])
            seen.append((trainer.global_step, weights(module)))

        # A LambdaCallback has the hook on the object, another one in its class.
        callbacks = [pl.callbacks.LambdaCallback(**{hook: see}), type("Looks", (pl.Callback,), {hook: lambda self, *args: see(*args)})()]
        module = Net()
        side.trainer(callbacks=callbacks).fit(module, side.loader(data(40)))
        return seen, weights(module)

    want, got = on_both(run, way)
    assert_same(got, want)
    assert len(want[0]) > 4


@pytest.mark.parametrize("way", [ALONE, Way(accumulated=2), Way(iterations=2)], ids=str)
def test_gradients_that_the_module_does_not_zero_add_up_as_on_the_cpu(way):
    class Keeps(Net):
        def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
            if batch_idx % 4 == 0:
                optimizer.zero_grad()

    def run(side):
        module = Keeps()
        side.trainer().fit(module, side.loader())
        return weights(module)

    want, got = on_both(run, way)
    assert_same(got, want)


def test_an_update_is_left_out_for_gradients_that_a_hook_drops():
    class Drops(Net):
        def on_after_backward(self):
            if self.trainer.global_step % 2:
                self.zero_grad()

    def run(side):
        module = Drops()
        side.trainer().fit(module, side.loader())
        return weights(module)

    want, got = on_both(run)
    assert_same(got, want)


def test_hooks_of_the_optimizer_are_called_as_on_the_cpu():
    class Hooked(Net):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            optimizer.register_step_post_hook(self.shrink)
            return optimizer

        def shrink(self, optimizer, args, kwargs):
            with torch.no_grad():
                for parameter in self.parameters():
                    parameter.clamp_(-0.25, 0.25)

    def run(side):
        module = Hooked()
        side.trainer().fit(module, side.loader())
        return weights(module)

    want, got = on_both(run, Way(iterations=2))
    assert_same(got, want)
    assert float(want.abs().max()) <= 0.25


def masked(gradient):
    return gradient * torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 0.0])


def halved(parameter):
    parameter.grad.mul_(0.5)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("late", [False, True])
def test_hooks_of_weights_change_gradients_as_on_the_cpu(late, way):
    class Registers(Net):
        def register(self):
            self.body[0].weight.register_hook(masked)
            if hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):  # since torch 2.1
                self.body[2].bias.register_post_accumulate_grad_hook(halved)

        def on_train_start(self):
            if late:
                self.register()

    def run(side, hooked=True):
        module = Registers()
        if hooked and not late:
            module.register()
        side.trainer().fit(module, side.loader(data(40)), side.loader(data(8)))
        return weights(module)

    want, got = on_both(run, way)
    assert_same(got, want)
    assert float((want - run(Side("cpu", way), hooked=False)).abs().max()) > 1e-3 or late


def test_what_is_done_once_for_several_updates_of_a_call_is_told():
    class Scheduled(Net):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
            return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

        def optimizer_step(self, *args, **kwargs):
            super().optimizer_step(*args, **kwargs)

    side = Side("ipu", Way(iterations=2))
    match = "2 weight updates.*share the learning rate of the first; Scheduled.optimizer_step is called once.*device_iterations=1"
    with pytest.warns(UserWarning, match=match):
        side.trainer(max_steps=2).fit(Scheduled(), side.loader())


def test_buffers_that_replicas_would_have_apart_are_refused_in_lightnings_words():
    class Counts(Net):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def training_step(self, batch, batch_idx):
            self.seen += 1
            return self.loss(batch)

    side = Side("ipu", Way(replicas=2))
    with pytest.raises(
        Exception, match=r"changes module.seen.*In Lightning's words: .*IPUStrategy\(training_opts=.*broadcastBuffers\(False\)"
    ):
        side.trainer().fit(Counts(), side.loader())


def test_hooks_around_backward_of_a_model_split_over_ipus_are_refused_with_accumulation():
    class Split(Watched):
        def __init__(self):
            super().__init__()
            self.body[2] = poptorch.BeginBlock(self.body[2], ipu_id=1)

    options = poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution())
    side = Side("ipu")
    trainer = side.trainer(devices=2, accumulate_grad_batches=2, strategy=lightning_ipu.IPUStrategy(training_opts=options))
    with pytest.raises(Exception, match="A model split over IPUs cannot be cut into the micro-batches that the hooks around backward"):
        trainer.fit(Split(), side.loader())


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
