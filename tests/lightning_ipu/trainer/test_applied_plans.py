"""IPUStrategy(plan=): stages and options of a plan on a run, with the numbers of the whole model; plans that do not go with a run."""

import json

import pytest
import torch
from torch import nn

import lightning_ipu
from lightning_ipu.planning import fit_check
from softipu.planner import Space
from softipu.report.plan import Partials, Plan, Schedule, Stage
from tests.lightning_ipu.trainer.oracle import Net, Side, Way, assert_same, data, on_both, weights
from tests.lightning_ipu.trainer.small_ipus import system


class Layered(Net):
    """A stem, layers of width 8 and a head."""

    def __init__(self, n_layers=4):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(2)
            self.stem = nn.Linear(6, 8)
            self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(n_layers))
            self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)

    def loss(self, batch):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def predict_step(self, batch, batch_idx):
        return self(batch[0])


TWO = Plan(stages=(Stage("", 0), Stage("layers.2", 1)), micro_batch=2, gradient_accumulation=4)
RECOMPUTING = Plan(
    stages=(Stage("", 0, recompute=True), Stage("layers.2", 1)),
    micro_batch=2,
    gradient_accumulation=4,
    checkpoints=("layers.0", "layers.1"),
)
EVERYTHING = Plan(
    stages=(Stage("", 0, recompute=True), Stage("layers.1", 1, recompute=True)),
    micro_batch=2, gradient_accumulation=4, replicas=2, device_iterations=2, checkpoints=("layers.0",),
    available_memory_proportion=(0.3, 0.2), partials=Partials.HALF,
    optimizer_state_off_chip=True, replicated_tensor_sharding=True, n_io_tiles=32,
)  # fmt: skip
SHARDED = Plan(stages=(Stage("", 0), Stage("layers.2", 1)), micro_batch=2, schedule=Schedule.SHARDED)
TURNS = Plan(stages=(Stage("", 0), Stage("layers.2", 1), Stage("head", 0)), micro_batch=2, gradient_accumulation=8)


@pytest.mark.parametrize(
    "plan", [TWO, RECOMPUTING, EVERYTHING, SHARDED, TURNS], ids=["two", "recomputing", "everything", "sharded", "turns"]
)
def test_a_plan_changes_no_number(plan):
    way = Way(plan.replicas, plan.gradient_accumulation, plan.device_iterations)
    strategy = lightning_ipu.IPUStrategy(plan=plan)

    def run(side):
        module = Layered()
        flags = {"devices": plan.n_ipus, "strategy": strategy, "accumulate_grad_batches": 1} if side.is_ipu else {}
        trainer = side.trainer(max_epochs=1, **flags)
        trainer.fit(module, side.loader(data(64), batch=2), side.loader(data(13), batch=2))
        validated = float(trainer.callback_metrics["val_loss"])
        predicted = torch.cat(trainer.predict(module, side.loader(data(13), batch=2)))
        return weights(module), trainer.global_step, validated, predicted

    want, got = on_both(run, way)
    assert_same(got, want)
    assert strategy.report.plan == plan


def options_of(plan):
    side = Side("ipu")
    trainer = side.trainer(devices=plan.n_ipus, max_epochs=1, strategy=lightning_ipu.IPUStrategy(plan=plan))
    trainer.fit(Layered(), side.loader(data(64), batch=plan.micro_batch))
    return trainer.strategy.training_opts, trainer.strategy.inference_opts


def test_options_say_what_the_plan_says():
    training, inference = options_of(EVERYTHING)
    assert (training.replication_factor, training.device_iterations, training.Training.gradient_accumulation) == (2, 2, 4)
    assert (inference.replication_factor, inference.device_iterations, inference.Training.gradient_accumulation) == (2, 1, 1)
    for options in (training, inference):
        assert options.available_memory_proportion == {0: 0.3, 1: 0.2}
        assert options._Popart.options["partialsTypeMatMuls"] == "half"
        assert options.TensorLocations.toDict()["numIOTiles"] == 32
    state = training.TensorLocations.location_optimizer
    assert state["onChip"] == 0 and state["useReplicatedTensorSharding"]
    assert training._Popart.options["autoRecomputation"] == 3


@pytest.mark.parametrize(
    "plan, wanted",
    [
        (TWO, 0),  # PopTorch recomputes in a pipeline unless it is told not to
        (RECOMPUTING, 3),
        (Plan(stages=(Stage("", 0, recompute=True),), micro_batch=2, checkpoints=("layers.1",)), 4),
        (Plan(micro_batch=2), None),
        (SHARDED, None),
    ],
)
def test_recomputation_is_asked_of_popart(plan, wanted):
    training, _ = options_of(plan)
    assert training._Popart.options.get("autoRecomputation") == wanted


def test_stages_that_do_not_recompute_keep_what_their_modules_return(monkeypatch):
    kept = []
    poptorch = lightning_ipu.poptorch
    original = poptorch.recomputationCheckpoint
    monkeypatch.setattr(poptorch, "recomputationCheckpoint", lambda *tensors: kept.append(1) or original(*tensors))
    options_of(RECOMPUTING)
    # Two checkpoints in the stage that recomputes; Linear, Tanh, Linear, Tanh and the head in the one that does not.
    assert len(kept) == 2 + 5


def test_the_module_is_as_before_when_the_run_is_over():
    module = Layered()
    side = Side("ipu")
    trainer = side.trainer(devices=2, max_epochs=1, strategy=lightning_ipu.IPUStrategy(plan=RECOMPUTING))
    trainer.fit(module, side.loader(data(16), batch=2))
    assert not any(part._forward_pre_hooks or part._forward_hooks for part in module.modules())
    trainer.fit_loop.max_epochs = 2
    trainer.fit(module, side.loader(data(16), batch=2))
    assert trainer.global_step == 4


class BuiltLate(Layered):
    """Makes its layers in setup()."""

    def __init__(self):
        super().__init__()
        self.made = {"layers": self.layers, "head": self.head}.items
        del self.layers, self.head

    def setup(self, stage):
        for name, module in self.made():
            setattr(self, name, module)


def test_modules_made_in_setup_can_begin_stages():
    strategy = lightning_ipu.IPUStrategy(plan=TWO)
    side = Side("ipu")
    trainer = side.trainer(devices=2, max_epochs=1, strategy=strategy)
    trainer.fit(BuiltLate(), side.loader(data(16), batch=2))
    assert trainer.global_step == 2 and len(strategy.report.plan.stages) == 2


def write(path, plan, **more):
    path.write_text(json.dumps({**plan.as_dict(), **more}))
    return str(path)


def test_a_plan_may_be_a_file(tmp_path):
    path = write(tmp_path / "plan.json", TWO, predicted={"model": "Layered", "items_per_second": 1.0})
    strategy = lightning_ipu.IPUStrategy(plan=path)
    side = Side("ipu")
    side.trainer(devices=2, max_epochs=1, strategy=strategy).fit(Layered(), side.loader(data(16), batch=2))
    assert strategy.report.plan == TWO


def test_a_plan_for_another_model_of_the_same_layers_is_told(tmp_path):
    path = write(tmp_path / "plan.json", TWO, predicted={"model": "Other"})
    side = Side("ipu")
    trainer = side.trainer(devices=2, max_epochs=1, strategy=lightning_ipu.IPUStrategy(plan=path))
    with pytest.warns(UserWarning, match="plan.json was made for Other and is applied to Layered"):
        trainer.fit(Layered(), side.loader(data(16), batch=2))


def refused(plan, match, *, module=None, devices=2, batch=2, exception=Exception, **arguments):
    side = Side("ipu")
    flags = arguments.pop("flags", {})
    with pytest.raises(exception, match=match):
        trainer = side.trainer(devices=devices, max_epochs=1, strategy=lightning_ipu.IPUStrategy(plan=plan, **arguments), **flags)
        trainer.fit(module or Layered(), side.loader(data(16), batch=batch))


def test_a_plan_for_another_model_is_refused():
    refused(TWO, r"The plan names the module 'layers.2', which Layered does not have.*Plan again", module=Layered(2))


def test_a_plan_for_other_devices_is_refused():
    refused(
        TWO, r"1 replica\(s\) of 2 IPU\(s\), 2 in all, and Trainer\(devices=4\) has another number. Use Trainer\(devices=2\)", devices=4
    )


def test_a_plan_for_another_batch_is_refused():
    refused(TWO, r"micro-batches of 2 items, and the training DataLoader has batch_size=4. Use batch_size=2", batch=4)


def test_a_plan_beside_other_accumulation_is_refused():
    flags = {"accumulate_grad_batches": 3}
    refused(TWO, r"Training.gradientAccumulation\(4\) contradicts Trainer\(accumulate_grad_batches=3\)", flags=flags)


def test_a_plan_beside_options_that_say_otherwise_is_refused():
    options = lightning_ipu.poptorch.Options()
    options.Training.gradientAccumulation(8)
    refused(TWO, r"training_opts.Training.gradientAccumulation\(8\) contradicts the plan, which has 4", training_opts=options)
    options = lightning_ipu.poptorch.Options().replicationFactor(2)
    refused(TWO, r"inference_opts.replicationFactor\(2\) contradicts the plan, which has 1", inference_opts=options)


def test_a_plan_for_a_model_with_blocks_of_its_own_is_refused():
    module = Layered()
    lightning_ipu.poptorch.BeginBlock(module.layers[1], ipu_id=0)
    refused(TWO, r"Layered has BeginBlocks of its own, and the plan would split it elsewhere", module=module)


def test_a_file_that_cannot_be_read_is_refused_at_once(tmp_path):
    with pytest.raises(Exception, match=r"The plan '.*none.json' cannot be read: No such file"):
        lightning_ipu.IPUStrategy(plan=tmp_path / "none.json")
    (tmp_path / "bad.json").write_text('{"schema": 1, "micro_batch": 0}')
    with pytest.raises(Exception, match=r"bad.json' cannot be used. A plan has micro_batch=0; it must be at least 1"):
        lightning_ipu.IPUStrategy(plan=tmp_path / "bad.json")
    with pytest.raises(TypeError, match=r"IPUStrategy\(plan=3\).*path of a plan.json"):
        lightning_ipu.IPUStrategy(plan=3)


class Deep(Layered):
    """24 layers that each keep as much for the backward pass."""

    def __init__(self):
        super().__init__(24)

    def forward(self, x):
        x = self.stem(x.repeat(1, 3072).reshape(-1, 6))
        for layer in self.layers:
            x = layer(x)
        return self.head(x).reshape(-1, 3072, 3).mean(1)


def test_24_layers_whose_even_split_overflows_are_found_one_that_fits_and_runs_with_the_same_numbers(monkeypatch):
    pod = system(16)
    batch = [tensor[:2] for tensor in data(2).tensors]
    even = Plan(stages=tuple(Stage(f"layers.{6 * i}" if i else "", i) for i in range(4)), micro_batch=2, gradient_accumulation=8)
    default = lightning_ipu.plan(Deep(), batch, system=pod, plan=even)
    assert not default.fits
    space = Space(micro_batches=(2,), ipus_per_replica=(4,), n_ipus=4, items_per_update=16)
    found = lightning_ipu.plan(Deep(), batch, system=pod, search=True, space=space)
    assert found.fits and found.plan.n_ipus == 4 and found.plan.micro_batch == 2
    monkeypatch.setattr(fit_check, "system_for", lambda n_ipus: pod)
    with pytest.raises(Exception, match="IPU 0 needs"):
        side = Side("ipu")
        side.trainer(devices=4, strategy=lightning_ipu.IPUStrategy(plan=even)).fit(Deep(), side.loader(data(16), batch=2))
    strategy = lightning_ipu.IPUStrategy(plan=found.plan)

    def run(side):
        module = Deep()
        flags = {"devices": 4, "strategy": strategy, "accumulate_grad_batches": 1} if side.is_ipu else {}
        side.trainer(max_epochs=1, **flags).fit(module, side.loader(data(16), batch=2))
        return weights(module)

    want, got = on_both(run, Way(accumulated=found.plan.gradient_accumulation))
    assert_same(got, want)
    assert strategy.report.fits and strategy.report.plan == found.plan
