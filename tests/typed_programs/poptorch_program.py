"""A program for PopTorch with all its types: mypy checks it with the code, so what editors complete and check stays right."""

from typing import Any, Dict, List, Tuple

import torch
from typing_extensions import assert_type

from lightning_ipu import poptorch


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = poptorch.BeginBlock(torch.nn.Linear(2, 2), "only", ipu_id=0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return poptorch.identity_loss(self.linear(x), reduction="mean")


def train(dataset: torch.utils.data.Dataset) -> Dict[str, Any]:
    options = poptorch.Options().deviceIterations(2).replicationFactor(2).outputMode(poptorch.OutputMode.Sum)
    assert_type(options, poptorch.Options)
    options.Training.gradientAccumulation(4).accumulationAndReplicationReductionType(poptorch.ReductionType.Mean)
    options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.Stage("only").ipu(0)))
    loader = poptorch.DataLoader(options, dataset, batch_size=2, mode=poptorch.DataLoaderMode.Async)
    model = Model()
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.1, loss_scaling=2.0)
    executor = poptorch.trainingModel(model, options, optimizer)
    assert_type(executor, poptorch.PoplarExecutor)
    for batch in loader:
        executor(batch)
    executor.setOptimizer(optimizer)
    assert_type(executor.getTensorNames(), List[str])
    assert_type(executor.getLatency(), Tuple[float, float, float])
    assert_type(executor.isCompiled(), bool)
    return optimizer.state_dict()


def mistakes() -> None:
    """Each line is an error to mypy; one that is none any more makes its comment an unused one, which is an error as well."""
    poptorch.Options().deviceIterations("2")  # type: ignore[arg-type]
    poptorch.Options().deviceIterations()  # type: ignore[call-arg]
    poptorch.trainingModel(3)  # type: ignore[arg-type]
    poptorch.inferenceModel(Model(), optimizer=None)  # type: ignore[call-arg]
    poptorch.OutputMode.Every  # type: ignore[attr-defined]  # noqa: B018
    poptorch.optim.SGD(Model().parameters())  # type: ignore[call-arg]
