"""IPUStrategy prices the training step before its first call: a report, DoesNotFitError, and nothing that changes the training."""

import json
import logging

import pytest
import torch
from torch import nn

import lightning_ipu
from lightning_ipu.planning import fit_check
from softipu.errors import DoesNotFitError
from tests.lightning_ipu.trainer.oracle import Net, Side, Way, assert_same, data, on_both, weights
from tests.lightning_ipu.trainer.small_ipus import system


@pytest.fixture
def tiny(monkeypatch):
    """IPUs of 8 tiles."""
    monkeypatch.setattr(fit_check, "system_for", lambda n_ipus: system(8))


class Wide(Net):
    """More activations than 8 tiles hold; tells how often its Python runs."""

    calls = []  # of the class: a number on the module would be counted by the device

    def forward(self, x):
        h = x.repeat(1, 50_000).tanh()
        return self.body(h.reshape(x.shape[0], -1, 6).mean(1))

    def loss(self, batch):
        self.calls.append(1)
        return nn.functional.cross_entropy(self(batch[0]), batch[1])


def fit(module, *, strategy=None, **flags):
    side = Side("ipu", flags.pop("way", Way()))
    trainer = side.trainer(max_epochs=1, **({"strategy": strategy} if strategy else {}), **flags)
    trainer.fit(module, side.loader(data(16)))
    return trainer


def test_a_step_that_fits_has_a_report_of_what_runs():
    trainer = fit(Net(), way=Way(2, 2, 1))
    report = trainer.strategy.report
    assert report.fits and report.model == "Net"
    plan = report.plan
    assert (plan.micro_batch, plan.replicas, plan.gradient_accumulation, plan.n_ipus_per_replica) == (4, 2, 2, 1)
    assert report.cost.system.startswith("bow-pod")


def test_there_is_no_report_before_a_fit_and_none_of_the_fit_before():
    strategy = lightning_ipu.IPUStrategy()
    side = Side("ipu")
    trainer = side.trainer(strategy=strategy)
    trainer.validate(Net(), side.loader(data(8)), verbose=False)
    assert strategy.report is None
    trainer.fit(Net(), side.loader(data(8)))
    first = strategy.report
    trainer.fit_loop.max_epochs = 3
    trainer.fit(Net(), side.loader(data(8), batch=2))
    assert strategy.report is not first and strategy.report.plan.micro_batch == 2
    trainer.validate(Net(), side.loader(data(8)), verbose=False)
    assert strategy.report.plan.micro_batch == 2


def test_a_step_that_does_not_fit_stops_before_training(tiny):
    module = Wide()
    before = weights(module)
    with pytest.raises(DoesNotFitError, match=r"IPU 0 needs .* has .*\n(.*\n)*Try, cheapest first: .*micro-batch 4 -> [12]"):
        fit(module)
    assert torch.equal(weights(module), before)


def test_allow_oom_trains_it_with_the_same_numbers(tiny):
    strategy = lightning_ipu.IPUStrategy(allow_oom=True)

    def run(side):
        module = Wide()
        side.trainer(max_epochs=1, **({"strategy": strategy} if side.is_ipu else {})).fit(module, side.loader(data(16)))
        return weights(module)

    want, got = on_both(run)
    assert_same(got, want)
    assert not strategy.report.fits and "DOES NOT FIT" in strategy.report.text()


def test_the_report_is_written_once_also_where_nothing_fits(tiny, tmp_path):
    folder = tmp_path / "deep" / "reports"
    with pytest.raises(DoesNotFitError):
        fit(Wide(), strategy=lightning_ipu.IPUStrategy(report_dir=folder))
    assert sorted(path.name for path in folder.iterdir()) == ["plan.json", "report.html", "report.json", "report.txt", "trace.json"]
    written = json.loads((folder / "report.json").read_text())
    assert written["schema"] == 1 and written["model"] == "Wide" and written["remedies"]
    assert "<html" in (folder / "report.html").read_text()
    assert json.loads((folder / "trace.json").read_text())["traceEvents"]
    assert "DOES NOT FIT" in (folder / "report.txt").read_text()


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_captured(tmp_path):
    (tmp_path / "file").write_text("")
    Wide.calls.clear()
    with pytest.raises(Exception, match=r"report_dir.*file.*Give a folder"):
        fit(Wide(), strategy=lightning_ipu.IPUStrategy(report_dir=tmp_path / "file"))
    assert not Wide.calls


def test_a_report_that_cannot_be_written_is_a_warning(tmp_path, caplog):
    (tmp_path / "report.html").mkdir()
    with caplog.at_level(logging.WARNING, logger="lightning_ipu"):
        trainer = fit(Net(), strategy=lightning_ipu.IPUStrategy(report_dir=tmp_path))
    assert trainer.global_step == 4 and trainer.strategy.report.fits
    assert any("the report was not written" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("looks", [True, False])
def test_pricing_captures_nothing_again(looks):
    Wide.calls.clear()
    side = Side("ipu")
    trainer = side.trainer(max_epochs=1)
    if not looks:
        trainer.strategy.planning.look_at = lambda *args: None
    trainer.fit(Wide(), side.loader(data(16)))
    assert len(Wide.calls) == 1


class Random(Net):
    """Draws on the device and on the host, and changes its own attributes."""

    def __init__(self):
        super().__init__()
        self.count, self.drawn = 0, []

    def on_train_batch_start(self, batch, batch_idx):
        self.drawn.append(float(torch.rand(())))

    def loss(self, batch):
        self.count += 1
        x = nn.functional.dropout(batch[0], 0.5)
        return nn.functional.cross_entropy(self.body(x), batch[1]) * (1 + self.count)


def test_pricing_changes_no_number_of_a_training():
    def run(*, looks):
        torch.manual_seed(5)
        side = Side("ipu", Way(2, 2, 1))
        trainer = side.trainer(max_epochs=2)
        if not looks:
            trainer.strategy.planning.look_at = lambda *args: None
        module = Random()
        trainer.fit(module, side.loader(data(64), shuffle=True))
        return weights(module), module.count, module.drawn, float(torch.rand(())), trainer.strategy.device_statistics()["ipu.devices"]

    with_price, without = run(looks=True), run(looks=False)
    assert torch.equal(with_price[0], without[0])
    assert with_price[1:] == without[1:]


def test_an_op_without_a_rule_is_one_warning_and_trains(monkeypatch, caplog):
    from softipu.ops import registry

    registry.known_ops()
    monkeypatch.delitem(registry._RULES, "aten::tanh")
    with caplog.at_level(logging.WARNING, logger="lightning_ipu"):
        trainer = fit(Net(), max_steps=3)
    said = [record.getMessage() for record in caplog.records if "price" in record.getMessage()]
    assert len(said) == 1 and "'aten::tanh'" in said[0]
    assert trainer.strategy.report is None and trainer.global_step == 3


def test_whatever_the_price_raises_the_training_runs(monkeypatch, caplog):
    import softipu.cost

    def broken(*args, **kwargs):
        raise ZeroDivisionError("no such cycles")

    monkeypatch.setattr(softipu.cost, "price", broken)
    with caplog.at_level(logging.WARNING, logger="lightning_ipu"):
        trainer = fit(Net())
    assert trainer.global_step == 4 and trainer.strategy.report is None
    assert any("has no price" in r.getMessage() and "no such cycles" in r.getMessage() for r in caplog.records)


def test_advice_that_fails_does_not_hide_that_nothing_fits(tiny, monkeypatch, caplog):
    import softipu.planner

    def broken(*args, **kwargs):
        raise ZeroDivisionError("no advice")

    monkeypatch.setattr(softipu.planner, "report_plan", broken)
    with pytest.raises(DoesNotFitError, match="IPU 0 needs"):
        fit(Wide())


def test_hardware_says_itself_whether_a_step_fits(monkeypatch, tiny):
    from lightning_ipu import backend

    side = Side("ipu")
    trainer = side.trainer(max_epochs=1)
    monkeypatch.setattr(backend, "choose", lambda: backend.Backend("sdk", "an IPU is attached"))
    trainer.fit(Wide(), side.loader(data(16)))
    assert trainer.strategy.report is None


def test_pricing_is_quick_beside_the_capture(monkeypatch):
    """Counted in calls of the cost model, not in seconds: one price for a fit, however many steps are captured."""
    import softipu.cost

    calls, price = [], softipu.cost.price
    monkeypatch.setattr(softipu.cost, "price", lambda *args, **kwargs: calls.append(1) or price(*args, **kwargs))
    side = Side("ipu", Way(2, 1, 1))
    trainer = side.trainer(max_epochs=2)
    trainer.fit(Net(), side.loader(data(30)))  # a short batch has a step of its own
    assert len(trainer.strategy.device_statistics()) and len(calls) == 1


def test_advice_may_name_more_ipus_than_the_trainer_has(monkeypatch):
    asked = []
    monkeypatch.setattr(fit_check, "system_for", lambda n_ipus: asked.append(n_ipus) or system(8))
    with pytest.raises(DoesNotFitError, match="Try, cheapest first"):
        fit(Wide())
    # The step is priced for the Trainer's one IPU, and advised on for as many as `lightning-ipu plan` plans for.
    assert asked == [1, 16]


def test_a_plan_from_python_says_nothing_of_a_training(capfd):
    logging.getLogger("lightning.pytorch").setLevel(logging.INFO)
    batch = [tensor[:2] for tensor in data(2).tensors]
    assert lightning_ipu.plan(Net(), batch, system="bow-pod4").fits
    said = capfd.readouterr()
    assert "available" not in said.out + said.err and said.out == ""
