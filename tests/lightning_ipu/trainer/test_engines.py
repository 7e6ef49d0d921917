"""IPUStrategy(engine=...): both engines train alike, and "auto" goes by the work that the Trainer's flags announce."""

import logging
import types

import pytest

import lightning_ipu
from lightning_ipu import backend
from lightning_ipu.work_to_come import calls_to_come
from softipu.poptorch.executor import engine_choice
from tests.lightning_ipu.trainer.oracle import TOGETHER, Net, Side, assert_same, data, pl, weights


def trained(way=TOGETHER, n=32, **strategy):
    side = Side("ipu", way)
    module = Net()
    trainer = side.trainer(strategy=lightning_ipu.IPUStrategy(device_iterations=way.iterations, **strategy))
    trainer.fit(module, side.loader(data(n)), side.loader(data(n)))
    return module


@pytest.fixture
def chosen(monkeypatch):
    """What was asked of the software IPU for every executor: engine and number of calls."""
    asked = []
    original = engine_choice.current

    def current():
        asked.append((original().name, original().n_calls))
        return original()

    monkeypatch.setattr(engine_choice, "current", current)
    monkeypatch.delenv(engine_choice.VARIABLE, raising=False)
    return asked


@pytest.mark.slow
def test_both_engines_train_alike():
    interpreted, compiled = trained(engine="interpreter"), trained(engine="compiled")
    assert_same(weights(compiled), weights(interpreted))


def test_the_engine_that_was_asked_for_runs(chosen):
    trained(engine="interpreter")
    assert {name for name, _ in chosen} == {"interpreter"}


def test_auto_is_told_how_many_calls_will_come(chosen):
    trained(n=36)  # of 16 rows an update and 2 updates a call: one whole call an epoch, and the rest; validation before it and twice after
    assert all(name == "auto" for name, _ in chosen)
    assert {calls for _, calls in chosen} <= {1, 2, 4, 6}
    assert None not in {calls for _, calls in chosen}


def test_an_unknown_engine_is_refused():
    with pytest.raises(ValueError, match=r"IPUStrategy\(engine='fast'\) is not known. Allowed: auto, interpreter, compiled"):
        lightning_ipu.IPUStrategy(engine="fast")


def test_an_engine_for_real_ipus_is_told_to_have_no_effect(monkeypatch, caplog):
    monkeypatch.setattr(backend, "poptorch", lambda: types.ModuleType("poptorch"))
    monkeypatch.setattr(logging.getLogger("lightning_ipu"), "propagate", True)
    backend._say_unused.cache_clear()
    with caplog.at_level(logging.INFO, logger="lightning_ipu"):
        for name in ("compiled", "compiled", "auto"):
            with backend.engine(name, 3):
                pass
    assert [r.getMessage() for r in caplog.records] == [
        "lightning-ipu: IPUStrategy(engine='compiled') is for the software IPU, and has no effect: the Poplar SDK runs the steps."
    ]


class Seen(pl.Callback):
    """Asks at the first batch of each stage how many calls will come."""

    def __init__(self, **arguments):
        self.arguments, self.calls = arguments, {}

    def ask(self, trainer, step):
        sizes = trainer.strategy.sizes(trains=step == "training_step")
        self.calls.setdefault(step, calls_to_come(trainer, step, sizes, is_rest=False))

    def on_train_batch_start(self, trainer, *_):
        self.ask(trainer, "training_step")

    def on_validation_batch_start(self, trainer, *_):
        if not trainer.sanity_checking:
            self.ask(trainer, "validation_step")

    def on_test_batch_start(self, trainer, *_):
        self.ask(trainer, "test_step")

    def on_predict_batch_start(self, trainer, *_):
        self.ask(trainer, "predict_step")


@pytest.mark.parametrize(
    "flags, calls",
    [
        ({"max_epochs": 3}, 3 * 8),
        ({"max_epochs": 3, "limit_train_batches": 5}, 3 * 5),
        ({"max_epochs": 50, "max_steps": 11}, 11),
        ({"max_epochs": 1000, "fast_dev_run": 2}, 2),
        ({"max_epochs": -1, "max_steps": 7}, 7),
    ],
)
def test_training_calls_that_come_are_counted(flags, calls):
    seen, side = Seen(), Side("ipu")
    trainer = side.trainer(callbacks=[seen], **flags)
    trainer.fit(Net(), side.loader())
    assert seen.calls["training_step"] == calls


def test_calls_of_other_stages_are_counted():
    seen, side = Seen(), Side("ipu")
    trainer = side.trainer(callbacks=[seen], max_epochs=4, check_val_every_n_epoch=2, val_check_interval=0.5, num_sanity_val_steps=0)

    class Two(Net):
        def validation_step(self, batch, batch_idx, dataloader_idx=0):
            self.log("val_loss", self.loss(batch))

    trainer.fit(Two(), side.loader(), [side.loader(), side.loader(data(8))])
    assert seen.calls["validation_step"] == 2 * 2 * (8 + 2)
    trainer.test(Net(), side.loader(), verbose=False)
    trainer.predict(Net(), side.loader(data(12)))
    assert (seen.calls["test_step"], seen.calls["predict_step"]) == (8, 3)


def test_a_run_without_an_end_has_no_number():
    class Stop(pl.Callback):
        def on_train_batch_end(self, trainer, *_):
            trainer.should_stop = True

    seen, side = Seen(), Side("ipu")
    trainer = side.trainer(callbacks=[seen, Stop()], max_epochs=-1)
    trainer.fit(Net(), side.loader())
    assert seen.calls["training_step"] is None
