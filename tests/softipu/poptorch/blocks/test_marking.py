"""Blocks tell a capture where operations belong, and do nothing otherwise."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from softipu import poptorch
from softipu.errors import Error
from softipu.poptorch.blocks.marking import BeginBlock, Block, BlockFunction, LegacyBeginBlockFn, removeBlocks
from softipu.poptorch.blocks.scope import BlockId, current_block, recorder, recording, require_block


class Probe(nn.Module):
    """Notes the block that it runs in."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.seen = []

    def forward(self, x):
        self.seen.append(current_block())
        return x * self.weight


def blocks_of(function):
    with recording() as running:
        function()
    return [(block.user_id, block.ipu_id) for block in running.blocks]


def test_outside_a_capture_blocks_do_nothing():
    probe = BeginBlock(Probe(), "A", ipu_id=1)
    with Block("B", ipu_id=2):
        assert torch.equal(probe(torch.ones(1)), torch.ones(1))
    Block.useAutoId()
    Block.start("C")
    assert probe.seen == [None] and recorder() is None and current_block() is require_block() is None


def test_with_block_holds_for_its_body():
    with recording():
        assert current_block() is None
        with Block("A", ipu_id=1):
            assert current_block() == BlockId("A", 1)
        assert current_block() is None


def test_started_block_holds_until_the_next():
    with recording():
        Block.start("A", ipu_id=0)
        Block.start(ipu_id=1)
        assert current_block() == require_block() == BlockId("0", 1)


def test_real_work_after_a_with_block_is_an_error():
    with recording():
        assert require_block() is None  # before the first block
        with Block("A"):
            assert require_block() == BlockId("A")
        with pytest.raises(Error, match="No active Block, all the ops must belong to a Block.*'A' has ended"):
            require_block()
        Block.start("B")
        assert require_block() == BlockId("B")


def test_inner_block_ends_in_the_outer_one():
    with recording():
        with Block("A"):
            with Block("B"):
                assert current_block() == BlockId("B")
            assert require_block() == BlockId("A")
        assert current_block() is None


def test_block_around_a_begun_one_ends_both():
    probe = BeginBlock(Probe(), "inner")
    with recording():
        with Block("outer"):
            probe(torch.ones(1))
            assert current_block() == BlockId("inner")
        with pytest.raises(Error, match="No active Block"):
            require_block()


def test_a_with_block_ends_when_its_body_raises():
    with recording():
        with pytest.raises(KeyError):
            with Block("A"):
                raise KeyError
        assert current_block() is None
    assert recorder() is None


def test_automatic_ids_count_blocks_without_one():
    def forward():
        Block.useAutoId()
        for user_id in (None, "special", None):
            with Block(user_id):
                pass

    assert blocks_of(forward) == [("0", None), ("special", None), ("1", None)]
    assert blocks_of(lambda: (forward(), forward()))[3:] == [("0", None), ("special", None), ("1", None)]


def test_a_module_keeps_its_automatic_id_within_a_capture():
    first, second = BeginBlock(Probe(), ipu_id=0), BeginBlock(Probe(), ipu_id=1)
    x = torch.ones(1)
    assert blocks_of(lambda: (first(x), second(x), first(x))) == [("0", 0), ("1", 1), ("0", 0)]
    assert blocks_of(lambda: second(x)) == [("0", 1)]


def test_begin_block_returns_the_module_and_lasts():
    model = nn.Sequential(Probe(), Probe(), Probe())
    assert BeginBlock(model[1], "B", ipu_id=1) is model[1]
    with recording():
        model(torch.ones(1))
    assert [probe.seen for probe in model] == [[None], [BlockId("B", 1)], [BlockId("B", 1)]]


def test_begin_block_keeps_class_repr_and_state():
    probe = Probe()
    text, keys, kind = repr(probe), list(probe.state_dict()), type(probe)
    BeginBlock(probe, "A")
    assert repr(probe) == text and list(probe.state_dict()) == keys and type(probe) is kind


def test_begin_block_twice_is_an_error():
    probe = BeginBlock(Probe(), "A", ipu_id=1)
    with pytest.raises(Error, match=r"module has already been assigned to a block: Probe has BeginBlock\(user_id=A, ipu_id=1\)"):
        BeginBlock(probe, "B")


def test_begin_block_of_something_else_is_an_error():
    with pytest.raises(Error, match="module is not an instance of torch.nn.Module or function: BeginBlock was given 3"):
        BeginBlock(3)


def test_begin_block_of_a_function():
    def double(x):
        return x * 2

    block = BeginBlock(double, 1, 2)
    assert isinstance(block, LegacyBeginBlockFn) and (block._user_id, block._ipu_id) == (1, 2)
    assert block(torch.ones(1)).item() == 2
    assert blocks_of(lambda: block(torch.ones(1))) == [("1", 2)]


@pytest.mark.parametrize("make", [Block, Block.start, BlockFunction, lambda *a: BeginBlock(Probe(), *a)])
@pytest.mark.parametrize("user_id, ipu_id, message", [(1.5, 0, "user_id is a string"), ("A", -1, "given -1"), ("A", "0", "given '0'")])
def test_wrong_ids_are_assertion_errors(make, user_id, ipu_id, message):
    with pytest.raises(AssertionError, match=message):
        make(user_id, ipu_id)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_of_modules_keep_their_blocks(copied):
    other = copied(BeginBlock(nn.Linear(1, 1), "A", ipu_id=2))
    assert blocks_of(lambda: other(torch.ones(1))) == [("A", 2)]


def test_modules_with_blocks_can_be_saved():
    file = io.BytesIO()
    torch.save(BeginBlock(nn.Linear(1, 1), "A"), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert blocks_of(lambda: loaded(torch.ones(1))) == [("A", None)]


def test_remove_blocks_takes_them_off_everywhere_and_leaves_other_hooks():
    model = nn.Sequential(Probe(), nn.Sequential(Probe()))
    calls = []
    model[1][0].register_forward_pre_hook(lambda module, args: calls.append(1))
    BeginBlock(model[0], "A")
    BeginBlock(model[1][0], "B")
    removeBlocks(model)
    assert blocks_of(lambda: model(torch.ones(1))) == [] and calls == [1]
    BeginBlock(model[0], "C")
    assert blocks_of(lambda: model(torch.ones(1))) == [("C", None)]


def test_remove_blocks_needs_a_module():
    with pytest.raises(AssertionError, match="removeBlocks needs a torch.nn.Module, given 3"):
        removeBlocks(3)


def test_block_function_is_a_block_around_the_body():
    class Model:
        @BlockFunction("A", ipu_id=1)
        def part(self, x):
            """Doubles."""
            return x * 2, current_block()

    assert Model.part.__doc__ == "Doubles."
    with recording():
        assert Model().part(3) == (6, BlockId("A", 1))
        assert current_block() is None


def test_module_repr_shows_where_blocks_begin():
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))
    assert poptorch.module_repr(model) == repr(model)
    poptorch.BeginBlock(model[0], ipu_id=1)
    poptorch.BeginBlock(model[1][0], "two")
    assert poptorch.module_repr(model) == (
        "Sequential(\n"
        "  (0): BeginBlock(user_id=None, ipu_id=1) Linear(in_features=2, out_features=3, bias=True)\n"
        "  (1): Sequential(\n"
        "    (0): BeginBlock(user_id=two, ipu_id=None) ReLU()\n"
        "    (1): Linear(in_features=3, out_features=1, bias=True)\n"
        "  )\n"
        ")"
    )
    assert repr(poptorch.inferenceModel(model)) == poptorch.module_repr(model)
