"""Gradient clipping: by norm on the device, by value and by the user's own code on the host."""

import pytest
import torch
from torch import nn

from lightning_ipu import poptorch
from tests.lightning_ipu.trainer.oracle import ALONE, TOGETHER, WAYS, Memory, Net, Side, assert_same, data, on_both, weights


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_clipping_by_norm_gives_the_cpus_weights(optimizer, way):
    class Clipped(Net):
        def configure_optimizers(self):
            return optimizer(self.parameters(), lr=0.05, **({"momentum": 0.9} if optimizer is torch.optim.SGD else {"eps": 1e-4}))

    def run(side, clip=0.1):
        module = Clipped()
        side.trainer(gradient_clip_val=clip).fit(module, side.loader(data(48)))
        return weights(module)

    want, got = on_both(run, way)
    assert_same(got, want)
    if way == ALONE:
        assert float((want - run(Side("cpu"), clip=None)).norm()) > 1e-3


def test_clipping_changes_nothing_below_the_limit():
    def run(side):
        module = Net()
        side.trainer(gradient_clip_val=1e6).fit(module, side.loader())
        return weights(module)

    want, got = on_both(run, TOGETHER)
    assert_same(got, want)


MAKERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.05, eps=1e-4),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01, eps=1e-4),
}


class Made(Net):
    """With the optimizer that ``rule`` names."""

    def __init__(self, rule):
        super().__init__()
        self.rule, self.norm = rule, nn.BatchNorm1d(6)

    def configure_optimizers(self):
        return MAKERS[self.rule](self.parameters())


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("rule", MAKERS)
def test_clipping_by_value_gives_the_cpus_weights(rule, way):
    def run(side, clip=0.01):
        module, counting = Made(rule), Memory()
        trainer = side.trainer(gradient_clip_val=clip, gradient_clip_algorithm="value", logger=counting, log_every_n_steps=1)
        trainer.fit(module, side.loader(data(50)))
        assert all(parameter.grad is None or not side.is_ipu for parameter in module.parameters())
        return weights(module), trainer.global_step

    (want, n_updates), (got, n_done) = on_both(run, way)
    assert_same(got, want)
    assert n_done == n_updates
    if way == ALONE and rule == "SGD":
        assert float((want - run(Side("cpu"), clip=None)[0]).norm()) > 1e-3


@pytest.mark.parametrize("way", [ALONE, TOGETHER], ids=str)
def test_clipping_by_norm_where_the_device_has_no_such_option_gives_the_cpus_weights(way):
    def run(side, clip=0.1):
        module = Made("RMSprop")
        side.trainer(gradient_clip_val=clip).fit(module, side.loader(data(48)))
        return weights(module)

    want, got = on_both(run, way)
    assert_same(got, want)


def test_clipping_by_value_tells_once_what_crosses_to_the_host():
    with pytest.warns(UserWarning, match="gradient_clip_algorithm='value'.*clips gradients by norm only.*MiB of gradients") as caught:
        Side("ipu").trainer(gradient_clip_val=0.5, gradient_clip_algorithm="value").fit(Net(), Side("ipu").loader())
    assert len([warning for warning in caught if "MiB of gradients" in str(warning.message)]) == 1


@pytest.mark.parametrize("precision", ["16-mixed", "16-true"])
@pytest.mark.parametrize("rule", ["SGD", "AdamW"])
def test_clipping_by_value_in_half_is_that_of_full_precision_within_its_steps(rule, precision):
    class Scaled(Net):
        def configure_optimizers(self):
            rest = {"eps": 1e-3} if rule == "AdamW" else {}
            return getattr(poptorch.optim, rule)(self.parameters(), lr=0.05, loss_scaling=128.0, **rest)

    def run(side, given, clip=0.01):
        module = Scaled()
        side.trainer(gradient_clip_val=clip, gradient_clip_algorithm="value", precision=given).fit(module, side.loader(data(48)))
        return weights(module)

    want = run(Side("cpu", TOGETHER), "32-true")
    got = run(Side("ipu", TOGETHER), precision)
    assert_same(got, want, tolerance=2e-3)
    assert float((want - run(Side("cpu", TOGETHER), "32-true", clip=None)).abs().max()) > 2e-2


def test_a_run_that_clips_by_value_resumes_where_it_stopped(tmp_path):
    def run(side):
        flags = {"gradient_clip_val": 0.01, "gradient_clip_algorithm": "value"}
        trainer = side.trainer(**flags, max_epochs=1)
        trainer.fit(Made("AdamW"), side.loader())
        file = tmp_path / f"{side.accelerator}.ckpt"
        trainer.save_checkpoint(file)
        module = Made("AdamW")
        side.trainer(**flags, max_epochs=3).fit(module, side.loader(), ckpt_path=file)
        whole = Made("AdamW")
        side.trainer(**flags, max_epochs=3).fit(whole, side.loader())
        assert torch.equal(weights(module), weights(whole))
        return weights(module), torch.load(file, weights_only=False)["optimizer_states"][0]["state"][0]["exp_avg"]

    want, got = on_both(run, TOGETHER)
    assert_same(got, want)


class Scripted(Net):
    """Clips by itself, as its ``clipping`` says."""

    def __init__(self, clipping):
        super().__init__()
        self.clipping = clipping

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        self.clipping(self, optimizer, gradient_clip_val, gradient_clip_algorithm)


OWN = {
    "flags": lambda module, optimizer, limit, kind: module.clip_gradients(optimizer, gradient_clip_val=limit, gradient_clip_algorithm=kind),
    "norm": lambda module, optimizer, *_: module.clip_gradients(optimizer, gradient_clip_val=0.1, gradient_clip_algorithm="norm"),
    "body": lambda module, optimizer, *_: nn.utils.clip_grad_norm_(module.body[0].parameters(), 0.05),
    "value": lambda module, optimizer, *_: nn.utils.clip_grad_value_(module.parameters(), 0.01),
    "late": lambda module, optimizer, *_: module.trainer.global_step < 4 or nn.utils.clip_grad_norm_(module.parameters(), 0.1),
}


@pytest.mark.parametrize("way", [ALONE, TOGETHER], ids=str)
@pytest.mark.parametrize("own", OWN)
def test_clipping_of_the_users_own_gives_the_cpus_weights(own, way):
    def run(side, clipping=OWN[own]):
        module = Scripted(clipping)
        side.trainer(**({"gradient_clip_val": 0.1} if own == "flags" else {})).fit(module, side.loader(data(50)))
        return weights(module)

    want, got = on_both(run, way)
    assert_same(got, want)
    assert float((want - run(Side("cpu", way), clipping=lambda *_: None)).abs().max()) > 1e-3


def test_clipping_of_the_users_own_tells_its_price():
    with pytest.warns(UserWarning, match="Scripted overrides configure_gradient_clipping.*So the host makes the updates: .*MiB"):
        Side("ipu").trainer(max_steps=1).fit(Scripted(OWN["norm"]), Side("ipu").loader())
