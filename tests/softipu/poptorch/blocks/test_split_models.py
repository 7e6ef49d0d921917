"""Models split over IPUs by blocks: same numbers as unsplit, and PopTorch's rules on how full a pipeline must be."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from softipu import poptorch
from softipu.graph.origin import origin_of


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x, y):
        return F.cross_entropy(self.c(torch.tanh(self.b(torch.relu(self.a(x))))), y)


class WithBlocks(Net):
    def forward(self, x, y):
        with poptorch.Block("first", ipu_id=0):
            x = torch.relu(self.a(x))
        with poptorch.Block("second", ipu_id=1):
            x = torch.tanh(self.b(x))
        with poptorch.Block("third", ipu_id=2):
            return F.cross_entropy(self.c(x), y)


def begun(model):
    for ipu, layer in enumerate((model.a, model.b, model.c)):
        poptorch.BeginBlock(layer, ipu_id=ipu)
    return model


def make_options(a=5, d=1, strategy=None):
    options = poptorch.Options().deviceIterations(d)
    options.Training.gradientAccumulation(a)
    if strategy is not None:
        options.setExecutionStrategy(strategy)
    return options


def train(model, options, calls=3):
    torch.manual_seed(1)
    rows = 2 * options.Training.gradient_accumulation * options.device_iterations
    executor = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    losses = [executor(torch.randn(rows, 4), torch.randint(0, 3, (rows,))) for _ in range(calls)]
    return losses, {k: v.clone() for k, v in model.state_dict().items()}, executor


STRATEGIES = {
    "pipelined": lambda: poptorch.PipelinedExecution(poptorch.AutoStage.SameAsIpu),
    "incremented": lambda: poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement),
    "sharded": lambda: poptorch.ShardedExecution(),
    "listed": lambda: poptorch.PipelinedExecution(
        poptorch.Stage("first").ipu(0), poptorch.Stage("second").ipu(1), poptorch.Stage("third").ipu(2)
    ),
}


# Modules with BeginBlock and no user ids have no names to list.
CASES = [(kind, name) for kind in (WithBlocks, Net) for name in STRATEGIES if kind is WithBlocks or name != "listed"]


@pytest.mark.parametrize("kind, strategy", CASES)
def test_split_models_train_bitwise_as_unsplit(kind, strategy):
    torch.manual_seed(0)
    whole = Net()
    split = kind()
    split.load_state_dict(whole.state_dict())
    want = train(whole, make_options())
    got = train(begun(split) if kind is Net else split, make_options(strategy=STRATEGIES[strategy]()))
    for a, b in zip(want[0], got[0]):
        assert torch.equal(a, b)
    for name in want[1]:
        assert torch.equal(want[1][name], got[1][name])


def test_every_op_knows_its_block_in_both_passes():
    _, _, executor = train(WithBlocks(), make_options())
    blocks = {"a": "first", "b": "second", "c": "third"}
    nodes = [n for n in executor.step.graph_module.graph.nodes if n.op == "call_function"]
    for node in nodes:
        origin = origin_of(node)
        if origin.module in blocks:
            assert origin.block.user_id == blocks[origin.module]
    names = {(origin_of(n).block.user_id, origin_of(n).backward) for n in nodes if origin_of(n).block is not None}
    assert names == {(b, backward) for b in blocks.values() for backward in (False, True)}


def test_training_pipeline_needs_twice_its_stages_less_one():
    with pytest.raises(poptorch.Error, match=r"gradientAccumulation must be greater than or equal to the number of pipeline stages \(5\)"):
        train(begun(Net()), make_options(a=4))
    train(begun(Net()), make_options(a=5))
    train(begun(Net()), make_options(a=1, strategy=poptorch.ShardedExecution()))


def test_inference_pipeline_needs_as_many_iterations_as_stages():
    model = begun(Net())
    x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
    with pytest.raises(poptorch.Error, match=r"deviceIterations must be greater than or equal to the number of pipeline stages \(3\)"):
        poptorch.inferenceModel(model, poptorch.Options().deviceIterations(2))(x, y)
    got = poptorch.inferenceModel(model, poptorch.Options().deviceIterations(3))(x, y)
    torch.testing.assert_close(got, torch.stack([model(a, b) for a, b in zip(x.split(2), y.split(2))]))


def test_work_after_the_last_block_has_ended_is_refused():
    class Loose(WithBlocks):
        def forward(self, x, y):
            return poptorch.identity_loss(super().forward(x, y) * 2, "none")

    with pytest.raises(poptorch.Error, match="No active Block"):
        train(Loose(), make_options())


def test_blocks_do_nothing_outside_an_ipu():
    model = WithBlocks()
    twin = Net()
    twin.load_state_dict(model.state_dict())
    x, y = torch.randn(2, 4), torch.randint(0, 3, (2,))
    assert torch.equal(model(x, y), twin(x, y)) and copy.deepcopy(model) is not None


class ThereAndBack(Net):
    def forward(self, x, y):
        with poptorch.Block("first", ipu_id=0):
            x = torch.relu(self.a(x))
        with poptorch.Block("second", ipu_id=1):
            x = torch.tanh(self.b(x))
        with poptorch.Block("back", ipu_id=0):
            return F.cross_entropy(self.c(x.view(-1, 8)), y)


def test_a_stage_that_needs_a_later_one_is_refused():
    with pytest.raises(poptorch.Error, match=r"block 'back' \(stage 0, IPU 0\) uses a result of block 'second' \(stage 1, IPU 1\)"):
        train(ThereAndBack(), make_options())


def test_a_stage_of_its_own_may_return_to_an_ipu():
    torch.manual_seed(0)
    plain = Net()
    model = ThereAndBack()
    model.load_state_dict(plain.state_dict())
    losses, _, _ = train(model, make_options(strategy=poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement)))
    expected, _, _ = train(plain, make_options())
    assert losses == expected
