"""The compiled engine trains as the interpreter does: weights after 100 updates, with every kind of model, optimizer and loop."""

import copy

import pytest
import torch
from torch import nn

from softipu import poptorch
from softipu.poptorch.executor import engine_choice
from softipu.runtime import CannotCompile
from softipu.runtime.compiled.compiler import find_compiler
from tests.softipu.poptorch.test_training_matches_torch import MICRO_BATCH, on_ipu, relative_error
from tests.softipu.small_models import OPTIMIZERS, Mlp, Recurrent, ResidualNet, TiedEmbedding, TransformerBlock

N_UPDATES = 100


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Programs of this file's tests only, so that each is really compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


class Dropping(nn.Module):
    """Draws random numbers in two places."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.GELU(), nn.Linear(16, 3), nn.Dropout(0.1))

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.body(x), y)

    batch = Mlp.batch


CASES = [
    (Mlp, "adamw", (1, 1, 5)),
    (ResidualNet, "momentum", (2, 3, 1)),
    (TransformerBlock, "adam", (1, 3, 5)),
    (Recurrent, "centered", (4, 1, 1)),
    (TiedEmbedding, "nesterov", (2, 1, 5)),
    (Dropping, "rmsprop", (2, 3, 5)),
]


@pytest.fixture(autouse=True)
def compiles(monkeypatch):
    """The engine that was asked for runs: an interpreter in its place would make every test here pass."""
    told = []
    monkeypatch.setattr(engine_choice, "_say", lambda message, level, about: told.append(message))
    yield
    assert not [message for message in told if "not on the engine" in message]


@pytest.mark.slow
@pytest.mark.parametrize("model, optimizer, shape", CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_weights_after_100_updates_are_those_of_the_interpreter(model, optimizer, shape):
    torch.manual_seed(0)
    start = model()
    n_replicas, n_accumulated, n_iterations = shape
    generator = torch.Generator().manual_seed(1)
    batches = [model.batch(MICRO_BATCH, generator) for _ in range(N_UPDATES * n_replicas * n_accumulated)]
    trained = {}
    for engine in ("interpreter", "compiled"):
        with engine_choice.using(engine):
            trained[engine] = on_ipu(copy.deepcopy(start), OPTIMIZERS[optimizer], batches, *shape)
    assert relative_error(start, trained["interpreter"]) > 1e-3, "training moved the weights"
    assert relative_error(trained["compiled"], trained["interpreter"]) < 1e-5


@pytest.mark.slow
def test_random_numbers_are_the_same_in_both_engines():
    model, x = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.25)), torch.ones(8, 64)
    model.train()
    drawn = []
    for engine in ("interpreter", "compiled"):
        with engine_choice.using(engine):
            executor = poptorch.inferenceModel(model, poptorch.Options().randomSeed(3).deviceIterations(4))
        drawn.append([executor(x) for _ in range(2)])
    assert torch.equal(drawn[0][0], drawn[1][0]) and torch.equal(drawn[0][1], drawn[1][1])
    assert not torch.equal(drawn[0][0], drawn[0][1])


@pytest.mark.slow
def test_a_second_learning_rate_compiles_nothing(capfd):
    torch.manual_seed(0)
    model = Mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    with engine_choice.using("compiled"):
        executor = poptorch.trainingModel(model, optimizer=optimizer)
    batch = Mlp.batch(4, torch.Generator().manual_seed(1))
    executor(*batch)
    capfd.readouterr()
    for lr in (0.05, 0.01):
        optimizer.param_groups[0]["lr"] = lr
        executor.setOptimizer(optimizer)
        executor(*batch)
    assert "compil" not in "".join(capfd.readouterr())


@pytest.mark.slow
def test_a_loaded_program_leaves_small_numbers_of_the_process_alone():
    smallest = float.fromhex("0x1p-1074")
    assert smallest * 1.0 > 0, "something else has switched small numbers off"
    model, x = nn.Linear(5, 7), torch.randn(4, 5)
    with engine_choice.using("compiled"):
        executor = poptorch.inferenceModel(nn.Sequential(model, nn.GELU()))
    executor(x)
    assert smallest * 1.0 > 0


def test_there_is_a_compiler_to_test_with():
    try:
        find_compiler()
    except CannotCompile as error:
        pytest.fail(f"the compiled engine is not tested: {error}")
