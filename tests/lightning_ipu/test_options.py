"""Options from the Trainer's flags and the user's own."""

import pytest
import torch

from lightning_ipu import options as ipu_options
from lightning_ipu import poptorch
from lightning_ipu._lightning import Lightning
from lightning_ipu.outputs import Cut

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
