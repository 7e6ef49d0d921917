"""Models that blocks split over IPUs: same numbers as in one piece, on as many replicas as the devices allow."""

import pytest
import torch
from torch import nn

import lightning_ipu
from tests.lightning_ipu.trainer.oracle import Net, Side, Way, assert_same, data, on_both, weights


class Four(Net):
    """Four layers, each of which may be a stage."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(2)
            self.first, self.second, self.third, self.last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    @property
    def layers(self):
        return [self.first, self.second, self.third, self.last]

    def forward(self, x):
        return self.last(torch.tanh(self.third(torch.tanh(self.second(torch.tanh(self.first(x)))))))

    def loss(self, batch):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def predict_step(self, batch, batch_idx):
        return self(batch[0])


def split(module, ids=(0, 1, 2, 3)):
    for layer, ipu_id in zip(module.layers, ids):
        lightning_ipu.poptorch.BeginBlock(layer, ipu_id=ipu_id)
    return module


class WithBlocks(Four):
    """The same with `with poptorch.Block` inside the step."""

    def forward(self, x):
        for ipu_id, layer in enumerate(self.layers):
            with lightning_ipu.poptorch.Block(ipu_id=ipu_id):
                x = layer(x)
                x = torch.tanh(x) if ipu_id < 3 else x
        return x

    def loss(self, batch):
        logits = self(batch[0])
        with lightning_ipu.poptorch.Block(ipu_id=3):
            return nn.functional.cross_entropy(logits, batch[1])


@pytest.mark.parametrize("devices, iterations", [(4, 1), (8, 1), (8, 2)])
def test_begin_blocks_of_four_stages(devices, iterations):
    way = Way(devices // 4, 7, iterations)

    def run(side):
        module = split(Four()) if side.is_ipu else Four()
        flags = {"devices": devices} if side.is_ipu else {}
        trainer = side.trainer(max_epochs=1, **flags)
        trainer.fit(module, side.loader(data(112), batch=2), side.loader(data(13), batch=2))
        predicted = torch.cat(trainer.predict(module, side.loader(data(13), batch=2)))
        return weights(module), trainer.global_step, float(trainer.callback_metrics.get("val_loss", 0)), predicted

    want, got = on_both(run, way)
    assert want[1] == 8 // way.replicas
    assert_same(got, want)


def test_blocks_inside_the_step_with_two_replicas():
    options = lightning_ipu.poptorch.Options().replicationFactor(2)
    strategy = lightning_ipu.IPUStrategy(training_opts=options)

    def run(side):
        module = WithBlocks() if side.is_ipu else Four()
        flags = {"devices": 8, "strategy": strategy} if side.is_ipu else {}
        trainer = side.trainer(max_epochs=1, **flags)
        trainer.fit(module, side.loader(data(112), batch=2))
        return weights(module), trainer.global_step

    want, got = on_both(run, Way(2, 7))
    assert_same(got, want)


def test_two_stages_on_half_precision_and_a_checkpoint(tmp_path):
    side = Side("ipu", Way(accumulated=3))
    module = split(Four(), (0, 0, 1, 1))
    trainer = side.trainer(devices=2, precision="16-mixed")
    trainer.fit(module, side.loader(data(48)))
    trainer.save_checkpoint(tmp_path / "split.ckpt")
    whole = Four()
    whole.load_state_dict(torch.load(tmp_path / "split.ckpt")["state_dict"])
    assert torch.equal(weights(whole), weights(module))


@pytest.mark.parametrize("devices", [1, 2])
def test_a_count_that_does_not_divide_is_an_error_with_one_that_does(devices):
    side = Side("ipu", Way(accumulated=7))
    with pytest.raises(Exception, match=rf"devices={devices}\): the model is split over 4 IPUs.*must be a multiple of 4.*devices=4"):
        side.trainer(devices=devices).fit(split(Four()), side.loader(data(112), batch=2))


def test_blocks_inside_the_step_that_need_more_ipus_are_refused():
    side = Side("ipu", Way(accumulated=7))
    with pytest.raises(Exception, match=r"poptorch.Block with ipu_id=3, but of Trainer\(devices=2\) each replica has 1 IPU"):
        side.trainer(devices=2).fit(WithBlocks(), side.loader(data(112), batch=2))


def test_too_little_accumulation_for_a_pipeline_is_refused_in_words_of_both():
    side = Side("ipu", Way(accumulated=2))
    with pytest.raises(Exception, match=r"number of pipeline stages \(7\).*accumulate_grad_batches.*ShardedExecution"):
        side.trainer(devices=4).fit(split(Four()), side.loader(data(112), batch=2))


def test_stage_after_stage_needs_no_accumulation():
    poptorch = lightning_ipu.poptorch
    options = poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution())

    def run(side):
        module = split(Four()) if side.is_ipu else Four()
        flags = {"devices": 4, "strategy": lightning_ipu.IPUStrategy(training_opts=options)} if side.is_ipu else {}
        side.trainer(max_epochs=1, **flags).fit(module, side.loader(data(32)))
        return weights(module)

    want, got = on_both(run)
    assert_same(got, want)


def test_a_rest_of_a_split_model_is_dropped_and_told():
    side = Side("ipu", Way(accumulated=7))
    trainer = side.trainer(devices=4, max_epochs=1)
    with pytest.warns(UserWarning, match="4 of 32 samples are dropped"):
        trainer.fit(split(Four()), side.loader(data(32)))
    assert trainer.global_step == 1
