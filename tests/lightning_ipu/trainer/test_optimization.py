"""Optimizers: the CPU's weights for those that the device has, a refusal with a way out for the rest."""

import pytest
import torch

import lightning_ipu
from tests.lightning_ipu.trainer.oracle import ALONE, TOGETHER, Net, Side, Way, assert_same, data, numbers, on_both, weights


def with_optimizer(make):
    class Trained(Net):
        def configure_optimizers(self):
            return make(self)

    return Trained


OPTIMIZERS = {
    "SGD": lambda m: torch.optim.SGD(m.parameters(), lr=0.1),
    "SGD nesterov": lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "SGD dampening": lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, dampening=0.5),
    "Adam": lambda m: torch.optim.Adam(m.parameters(), lr=0.01, weight_decay=0.01, eps=1e-4),
    "AdamW": lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, betas=(0.8, 0.9), eps=1e-4),
    "RMSprop": lambda m: torch.optim.RMSprop(m.parameters(), lr=0.01, eps=1e-4),
    "RMSprop centered": lambda m: torch.optim.RMSprop(m.parameters(), lr=0.01, momentum=0.5, centered=True, eps=1e-3),
    "groups": lambda m: torch.optim.AdamW(
        [{"params": m.body[0].parameters(), "lr": 0.02}, {"params": m.body[2].parameters(), "weight_decay": 0.2}], lr=0.01, eps=1e-4
    ),
    "some parameters": lambda m: torch.optim.SGD(m.body[2].parameters(), lr=0.1),
}


@pytest.mark.parametrize("way", [ALONE, TOGETHER], ids=str)
@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_optimizer_gives_the_cpus_weights(name, way):
    def run(side):
        module = with_optimizer(OPTIMIZERS[name])()
        side.trainer(max_epochs=3).fit(module, side.loader(data(48)))
        return weights(module)

    want, got = on_both(run, way)
    assert_same(got, want)


def test_loss_scaling_changes_no_number_in_float32():
    def run(loss_scaling):
        make = lambda m: lightning_ipu.poptorch.optim.AdamW(m.parameters(), lr=0.01, eps=1e-4, loss_scaling=loss_scaling)  # noqa: E731
        module, side = with_optimizer(make)(), Side("ipu", Way(replicas=2))
        side.trainer().fit(module, side.loader())
        return weights(module)

    assert torch.equal(run(1.0), run(1024.0))


REFUSED = {
    "two optimizers": (
        lambda m: [torch.optim.SGD(m.body[0].parameters(), lr=0.1), torch.optim.SGD(m.body[2].parameters(), lr=0.1)],
        "multiple optimizers|one optimizer",
    ),
    "LBFGS": (lambda m: torch.optim.LBFGS(m.parameters()), "no rule for the optimizer torch.optim.lbfgs.LBFGS.*Use one of these"),
    "Adagrad": (lambda m: torch.optim.Adagrad(m.parameters()), "no rule for the optimizer .*Adagrad.*AdamW, RMSprop"),
    "amsgrad": (lambda m: torch.optim.Adam(m.parameters(), amsgrad=True), r"amsgrad=True\): PopTorch has no such update"),
    "maximize": (lambda m: torch.optim.SGD(m.parameters(), lr=0.1, maximize=True), r"maximize=True\).*Leave maximize out"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_optimizer_is_refused_before_training(name):
    make, message = REFUSED[name]
    side = Side("ipu")
    with pytest.raises(Exception, match=message):
        side.trainer().fit(with_optimizer(make)(), side.loader())


def test_an_optimizer_with_a_step_of_its_own_is_refused():
    class Signs(torch.optim.SGD):
        def step(self, closure=None):
            raise AssertionError("never called")

    side = Side("ipu")
    with pytest.raises(Exception, match=r"Signs overrides step\(\).*would be SGD's"):
        side.trainer().fit(with_optimizer(lambda m: Signs(m.parameters(), lr=0.1))(), side.loader())


def test_manual_optimization_is_refused():
    class Manual(Net):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

    side = Side("ipu")
    with pytest.raises(Exception, match="automatic_optimization=False.*Return the loss from training_step"):
        side.trainer().fit(Manual(), side.loader())


def test_no_optimizer_is_refused_or_as_on_the_cpu():
    def run(side):
        module = with_optimizer(lambda m: None)()
        try:
            side.trainer(max_epochs=1).fit(module, side.loader())
        except Exception as error:
            return "refused", "optimizer" in str(error)
        return "ran", True

    got = run(Side("ipu"))
    assert got[1], "the reason names the optimizer"


def test_parameters_without_gradient_stay():
    class Frozen(Net):
        def __init__(self):
            super().__init__()
            self.body[0].requires_grad_(False)

    def run(side):
        module = Frozen()
        before = module.body[0].weight.clone()
        side.trainer().fit(module, side.loader())
        assert torch.equal(module.body[0].weight, before)
        return weights(module)

    want, got = on_both(run, Way(replicas=2))
    assert_same(got, want)


def test_an_optimizer_step_of_the_module_that_calls_the_closure():
    class Warm(Net):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
            for group in optimizer.param_groups:
                group["lr"] = 0.1 / (1 + self.trainer.global_step)
            super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)

    def run(side):
        module = Warm()
        side.trainer().fit(module, side.loader())
        return weights(module)

    want, got = on_both(run, Way(replicas=2))
    assert_same(got, want)


# Importing torch's compiler is what takes long here.
@pytest.mark.parametrize("what", ["module", "part"])
def test_what_went_through_torch_compile_trains_as_without(what):
    def run(side):
        module = Net()
        given = module
        if side.is_ipu and what == "module":
            given = torch.compile(module)
        elif side.is_ipu:
            module.body = torch.compile(module.body)
        trainer = side.trainer()
        trainer.fit(given, side.loader(), side.loader(data(9)))
        return weights(module), numbers(trainer.callback_metrics), torch.cat(trainer.predict(given, side.loader(data(9))))

    want, got = on_both(run, TOGETHER)
    assert_same(got, want)


def test_no_optimizer_at_all_is_refused():
    class Without(Net):
        def configure_optimizers(self):
            return None

    with pytest.raises(Exception, match="configure_optimizers returned None.*torch.optim.SGD, Adam"):
        Side("ipu").trainer().fit(Without(), Side("ipu").loader())
