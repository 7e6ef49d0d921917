"""An executor's blocks and options as a plan."""

import pytest
import torch
from torch import nn

from softipu import poptorch
from softipu.errors import Error
from softipu.poptorch.executor.layout import capture_layout, layout_of
from softipu.report.plan import Partials, Plan, Schedule, Stage


class Net(nn.Module):
    def __init__(self, *blocks):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        for index, ipu in blocks:
            self.layers[index] = poptorch.BeginBlock(self.layers[index], ipu_id=ipu)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x, poptorch.identity_loss(x, "sum")


def training(options=None, blocks=()):
    model = Net(*blocks)
    return poptorch.trainingModel(model, options, torch.optim.AdamW(model.parameters(), lr=0.1))


def captured(options=None, blocks=()):
    return capture_layout(training(options, blocks), 2, torch.ones(2, 4))


def test_no_blocks_and_no_options_are_the_plan_of_one_ipu():
    layout = captured()
    assert layout.plan == Plan(micro_batch=2)
    assert layout.optimizer.rule == "AdamW" and layout.unlisted == () and layout.containers == {"layers"}


def test_blocks_are_stages_and_a_pipeline_recomputes():
    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    plan = captured(options, [(0, 0), (1, 1), (2, 2)]).plan
    assert plan.stages == (Stage("", 0, True), Stage("layers.1", 1, True), Stage("layers.2", 2, True))
    assert plan.schedule is Schedule.PIPELINED and plan.gradient_accumulation == 4


def test_options_are_those_of_the_plan():
    options = poptorch.Options().deviceIterations(3).replicationFactor(2)
    options.Training.gradientAccumulation(4)
    options.setAvailableMemoryProportion({"IPU0": 0.2})
    options._Popart.set("partialsTypeMatMuls", "half")
    options._Popart.set("autoRecomputation", 0)
    location = poptorch.TensorLocationSettings().useOnChipStorage(False).useReplicatedTensorSharding(True)
    options.TensorLocations.setOptimizerLocation(location)
    plan = captured(options, [(0, 0), (1, 1)]).plan
    assert (plan.device_iterations, plan.replicas, plan.gradient_accumulation) == (3, 2, 4)
    assert plan.available_memory_proportion == (0.2, 0.6) and plan.partials is Partials.HALF
    assert plan.optimizer_state_off_chip and plan.replicated_tensor_sharding
    assert not any(stage.recompute for stage in plan.stages)


def test_sharded_execution_runs_one_ipu_at_a_time():
    options = poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution())
    plan = captured(options, [(0, 0), (1, 1)]).plan
    assert plan.schedule is Schedule.SHARDED and [stage.ipu for stage in plan.stages] == [0, 1]


def test_a_compiled_executor_has_the_layout_that_was_captured():
    executor = training()
    with pytest.raises(Error, match="compile"):
        layout_of(executor, 2)
    executor.compile(torch.ones(2, 4))
    layout = layout_of(executor, 2)
    assert layout.plan == captured().plan and layout.step is executor.step


def test_paths_are_counted_from_the_root():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.module = Net((0, 0), (1, 1))

        def forward(self, x):
            return self.module(x)

    model = Outer()
    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    executor = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    layout = capture_layout(executor, 2, torch.ones(2, 4), root="module")
    assert [stage.begin for stage in layout.plan.stages] == ["", "layers.1"] and layout.containers == {"layers"}
