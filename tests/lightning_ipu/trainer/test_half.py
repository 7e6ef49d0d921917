"""precision=...: half weights, half compute with float32 weights, and what is refused by name."""

import pytest
import torch
from torch import nn

import lightning_ipu
from tests.lightning_ipu.trainer.oracle import TOGETHER, Memory, Net, Side, Way, assert_same, data, on_both, weights


class Mixed(Net):
    """Embeds class numbers, normalises, and notes the dtypes that its step saw."""

    seen = {}

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(2)
            self.embed = nn.Embedding(3, 6)
            self.norm = nn.LayerNorm(6)

    def loss(self, batch):
        x, y = batch
        hidden = self.norm(self.embed(y) * 0.1 + x)
        logits = self.body(hidden)
        Mixed.seen.update(x=x.dtype, y=y.dtype, logits=logits.dtype)
        return nn.functional.cross_entropy(logits.float(), y)

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("loss", loss, on_step=False, on_epoch=True)
        self.log("mean", batch[0].mean() * 1000, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


DTYPES = {
    "32-true": (torch.float32, torch.float32),
    "16-mixed": (torch.float32, torch.float16),
    "16-true": (torch.float16, torch.float16),
}


@pytest.mark.parametrize("way", [Way(replicas=2), TOGETHER], ids=str)
@pytest.mark.parametrize("precision", list(DTYPES))
def test_dtypes_and_numbers_of(precision, way):
    def run(side):
        module = Mixed()
        trainer = side.trainer(precision=precision if side.is_ipu else "32-true")
        trainer.fit(module, side.loader(), side.loader(data(9)))
        return module, trainer

    (oracle, cpu), (module, ipu) = on_both(run, way)
    of_weights, of_compute = DTYPES[precision]
    assert {p.dtype for p in module.parameters()} == {of_weights}
    assert Mixed.seen == {"x": of_compute, "y": torch.int64, "logits": of_compute}
    tolerance = {"32-true": 1e-5, "16-mixed": 2e-3, "16-true": 1e-2}[precision]
    assert_same(weights(module), weights(oracle), tolerance)
    assert_same(float(ipu.callback_metrics["loss"]), float(cpu.callback_metrics["loss"]), tolerance)
    assert_same(float(ipu.callback_metrics["val_loss"]), float(cpu.callback_metrics["val_loss"]), tolerance)
    # What is logged is added up in float32: the mean of a thousandfold would lose digits in half.
    assert ipu.callback_metrics["mean"].dtype == torch.float32
    if precision != "32-true":
        assert not torch.equal(weights(module), weights(oracle))


def test_loss_scaling_saves_gradients_that_half_cannot_hold():
    class Faint(Net):
        def __init__(self, loss_scaling):
            super().__init__()
            self.loss_scaling = loss_scaling

        def training_step(self, batch, batch_idx):
            return super().training_step(batch, batch_idx) * 1e-8

        def configure_optimizers(self):
            return lightning_ipu.poptorch.optim.SGD(self.parameters(), lr=1e7, loss_scaling=self.loss_scaling)

    def change(loss_scaling):
        module, side = Faint(loss_scaling), Side("ipu", Way(replicas=2))
        before = weights(module)
        memory = Memory()
        side.trainer(precision="16-mixed", max_epochs=1, logger=memory).fit(module, side.loader())
        return float((weights(module) - before).norm())

    assert change(1.0) == 0.0
    assert change(1024.0 * 16) > 0.01


def test_half_partials_and_stochastic_rounding_are_options():
    def run(**set_up):
        options = lightning_ipu.poptorch.Options()
        for name, value in set_up.items():
            getattr(options.Precision, name)(value)
        module, side = Mixed(), Side("ipu", Way(replicas=2))
        torch.manual_seed(0)
        side.trainer(precision="16-true", strategy=lightning_ipu.IPUStrategy(training_opts=options)).fit(module, side.loader())
        return weights(module)

    plain = run()
    assert_same(run(setPartialsType=torch.half), plain, 0.05)
    assert_same(run(setPartialsType=torch.float), plain, 0.05)
    assert not torch.equal(run(enableStochasticRounding=True), plain)


PARTS = {
    "BatchNorm": lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)),
    "LSTM": lambda: Last(nn.LSTM(3, 3, num_layers=2, batch_first=True)),
    "attention": lambda: Last(nn.TransformerEncoderLayer(3, 1, 8, dropout=0.0, batch_first=True)),
    "convolution": lambda: nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(16, 3)),
    "weight norm": lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 3)),
    "spectral norm": lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 3)),
}


class Last(nn.Module):
    """A sequence of two times three numbers, of which the last counts."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        out = self.part(x.reshape(-1, 2, 3))
        return (out[0] if isinstance(out, tuple) else out)[:, -1]


@pytest.mark.parametrize("part", list(PARTS))
@pytest.mark.parametrize("precision", ["16-mixed", "16-true"])
def test_parts_that_compute_in_half(part, precision):
    def run(side):
        torch.manual_seed(4)
        module = Mixed()
        module.body = PARTS[part]()
        trainer = side.trainer(precision=precision if side.is_ipu else "32-true")
        trainer.fit(module, side.loader(), side.loader(data(9)))
        return weights(module), float(trainer.callback_metrics["val_loss"])

    want, got = on_both(run)
    assert_same(got, want, 2e-2)


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true", "64-true", 64, "transformer-engine"])
def test_other_precisions_are_refused_by_name(precision):
    with pytest.raises(
        ValueError, match=r"precision='(bf16|64|transformer).*computes in float32 and in half.*'32-true', '16-mixed', '16-true'"
    ):
        Side("ipu").trainer(precision=precision)


def test_predictions_in_half_keep_their_dtype():
    side = Side("ipu")
    (predicted,) = side.trainer(precision="16-true").predict(Net(), side.loader(data(4)))
    assert predicted.dtype == torch.float16
