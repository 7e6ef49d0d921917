"""Options from the Trainer's flags and the user's own."""

import lightning.pytorch as pl
import pytest
import torch
from torch.utils.data import TensorDataset

from lightning_ipu import IPUStrategy, poptorch
from lightning_ipu import options as ipu_options
from lightning_ipu._lightning import Lightning
from lightning_ipu.structures.outputs import Cut

LIGHTNING = Lightning("lightning.pytorch")


def sizes(training=None, inference=None, **flags):
    flags = {"devices": 4, "ipus": 1, "accumulate": 1, "device_iterations": 1, **flags}
    return ipu_options.sizes_of(training or poptorch.Options(), inference or poptorch.Options(), lightning=LIGHTNING, **flags)


def accumulating(n):
    options = poptorch.Options()
    options.Training.gradientAccumulation(n)
    return options


def test_flags_decide_where_options_say_nothing():
    training, elsewhere = sizes(accumulate=3, device_iterations=5)
    assert (training.n_iterations, training.n_accumulated, training.n_replicas) == (5, 3, 4)
    assert (elsewhere.n_iterations, elsewhere.n_accumulated, elsewhere.n_replicas) == (5, 1, 4)


def test_options_decide_where_flags_say_nothing():
    training, elsewhere = sizes(accumulating(6).deviceIterations(2), poptorch.Options().deviceIterations(8))
    assert (training.n_iterations, training.n_accumulated) == (2, 6)
    assert elsewhere.n_iterations == 8


@pytest.mark.parametrize(
    ("training", "flags", "message"),
    [
        (poptorch.Options().deviceIterations(4), {"device_iterations": 2}, r"\(4\) contradicts IPUStrategy\(device_iterations=2\)"),
        (accumulating(4), {"accumulate": 2}, r"gradientAccumulation\(4\) contradicts Trainer\(accumulate_grad_batches=2\)"),
        (poptorch.Options().replicationFactor(3), {}, r"\(3\) does not fit Trainer\(devices=4\).*Allowed factors: 1, 2, 4"),
        (None, {"ipus": 3}, r"split over 3 IPUs.*must be a multiple of 3"),
    ],
)
def test_contradictions_are_refused(training, flags, message):
    with pytest.raises(Exception, match=message):
        sizes(training, **flags)


def test_gradient_accumulation_outside_training_is_refused():
    with pytest.raises(Exception, match="no gradients outside training"):
        sizes(None, accumulating(2))


def test_replicas_share_the_devices_of_a_split_model():
    assert sizes(devices=8, ipus=4)[0].n_replicas == 2
    assert sizes(poptorch.Options().replicationFactor(2), devices=8)[0].n_replicas == 2


def test_the_users_options_are_not_changed_and_not_frozen():
    own = poptorch.Options()
    ipu_options.step_options(own, poptorch, Cut(2, 3, 4, 1, 24), trains=True, is_twin=False)
    assert (own.device_iterations, own.replication_factor, own.Training.gradient_accumulation) == (1, 1, 1)
    own.deviceIterations(7)


def test_the_seed_is_torchs_and_torch_does_not_notice():
    torch.manual_seed(123)
    before = torch.random.get_rng_state()
    made = ipu_options.step_options(poptorch.Options(), poptorch, Cut(1, 1, 1, 1, 1), trains=True, is_twin=False)
    assert made.random_seed == 123
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_users_seed_stays():
    torch.manual_seed(123)
    made = ipu_options.step_options(poptorch.Options().randomSeed(5), poptorch, Cut(1, 1, 1, 1, 1), trains=False, is_twin=False)
    assert made.random_seed == 5


def test_replicas_that_share_input_are_refused():
    options = poptorch.Options().replicationFactor(4).inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive)
    with pytest.raises(Exception, match="every replica's batch as other samples"):
        ipu_options.check(options, poptorch, LIGHTNING)


def test_another_output_mode_is_warned_about():
    with pytest.warns(UserWarning, match=r"outputMode\(Final\) is not used"):
        ipu_options.check(poptorch.Options().outputMode(poptorch.OutputMode.Final), poptorch, LIGHTNING)


def test_hooks_see_the_options_of_the_run():
    class Net(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(2, 1)

        def train_dataloader(self):
            return poptorch.DataLoader(self.trainer.strategy.training_opts, TensorDataset(torch.randn(24, 2)), batch_size=2)

        def training_step(self, batch, batch_idx):
            return self.lin(batch[0]).pow(2).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    strategy = IPUStrategy(device_iterations=3)
    trainer = pl.Trainer(accelerator="ipu", devices=2, strategy=strategy, accumulate_grad_batches=2, max_epochs=1, **quiet)
    trainer.fit(Net())
    assert trainer.num_training_batches == 1
    assert trainer.global_step == 3


def test_one_of_several_processes_is_refused(monkeypatch):
    environment = LIGHTNING.name("plugins.environments", "LightningEnvironment")()
    monkeypatch.setattr(type(environment), "world_size", lambda self: 4)
    with pytest.raises(Exception, match="LightningEnvironment says that this is one of 4 processes"):
        IPUStrategy.refuse_other_processes(environment, LIGHTNING)
