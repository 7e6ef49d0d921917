"""The debug log says where the operations of a model run."""

import pytest
import torch
from torch import nn

from softipu import poptorch


class TwoBlocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.ReLU(), nn.ReLU()

    def forward(self, x):
        return self.second(self.first(x * 4)) * 2


def lines_of(caplog, model, options):
    caplog.clear()
    with caplog.at_level("DEBUG", logger="poptorch::python"):
        poptorch.inferenceModel(model, options).compile(torch.ones(2, 5))
    return [record.getMessage() for record in caplog.records]


def test_each_result_has_an_ipu_and_a_stage(caplog):
    model = TwoBlocks()
    poptorch.BeginBlock(model.second, ipu_id=1)
    lines = lines_of(caplog, model, poptorch.Options().deviceIterations(2))
    assert "enablePipelining set to value 1" in lines
    assert [line for line in lines if "mode(" in line] == [
        "Mul:0  mode(Pipelined), ipu(0), stage(0)",
        "first/Relu:0  mode(Pipelined), ipu(0), stage(0)",
        "second/Relu:0  mode(Pipelined), ipu(1), stage(1)",
        "Mul:0/1  mode(Pipelined), ipu(1), stage(1)",
    ]


def test_without_blocks_all_is_on_one_ipu(caplog):
    lines = lines_of(caplog, TwoBlocks(), poptorch.Options().deviceIterations(2))
    assert "enablePipelining set to value 0" in lines
    assert {line.split("  ")[1] for line in lines if "mode(" in line} == {"mode(Pipelined), ipu(0), stage(0)"}


@pytest.mark.parametrize(
    "strategy, place",
    [
        (poptorch.ShardedExecution, "mode(Sharded), ipu(1), stage(1)"),
        (poptorch.SerialPhasedExecution, "mode(SerialPhased), ipu(1), stage(0), phase(1)"),
    ],
)
def test_other_strategies_are_named(caplog, strategy, place):
    model = TwoBlocks()
    poptorch.BeginBlock(model.first, "a", ipu_id=0)
    poptorch.BeginBlock(model.second, "b", ipu_id=1)
    options = poptorch.Options().deviceIterations(2)
    options.setExecutionStrategy(strategy("a", "b"))
    lines = lines_of(caplog, model, options)
    assert "enablePipelining set to value 0" in lines
    assert f"second/Relu:0  {place}" in lines


def test_other_levels_are_silent(caplog):
    with caplog.at_level("INFO", logger="poptorch::python"):
        poptorch.inferenceModel(TwoBlocks()).compile(torch.ones(2, 5))
    assert "mode(" not in caplog.text
