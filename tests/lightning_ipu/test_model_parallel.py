"""How many IPUs a replica takes."""

from torch import nn

from lightning_ipu import poptorch
from lightning_ipu.model_parallel import blocks_seen, ipus_of


def test_a_model_without_blocks_takes_one():
    assert ipus_of(nn.Sequential(nn.Linear(2, 2))) == 1


def test_begin_block_marks_are_counted():
    model = nn.Sequential(nn.Linear(2, 2), poptorch.BeginBlock(nn.Linear(2, 2), ipu_id=2), poptorch.BeginBlock(nn.Linear(2, 2), ipu_id=1))
    assert ipus_of(model) == 3


def test_blocks_entered_meanwhile_are_seen():
    with blocks_seen(poptorch) as seen:
        with poptorch.Block(ipu_id=3):
            poptorch.Block.start(ipu_id=1)
    with poptorch.Block(ipu_id=5):
        pass
    assert seen == [3, 1]
