"""A model on four IPUs, as a pipeline and with one stage after another. Splitting a model changes no number."""

import copy

import poptorch
import torch
from torch import nn
from torch.nn import functional as F

MICRO_BATCH = 4


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(10, 24), nn.GELU())
        self.second = nn.Sequential(nn.Linear(24, 24), nn.GELU())
        self.third = nn.Sequential(nn.Linear(24, 24), nn.GELU())
        self.last = nn.Linear(24, 4)

    def forward(self, x, labels):
        return F.cross_entropy(self.last(self.third(self.second(self.first(x)))), labels)


def split(model):
    """From each of these layers on, everything belongs to the next IPU."""
    for ipu, layer in enumerate((model.first, model.second, model.third, model.last)):
        poptorch.BeginBlock(layer, f"part {ipu}", ipu_id=ipu)
    return model


def make_options(strategy, accumulation):
    options = poptorch.Options()
    options.Training.gradientAccumulation(accumulation)
    if strategy is not None:
        options.setExecutionStrategy(strategy)
    return options


def train(model, options, batches):
    training = poptorch.trainingModel(model, options, torch.optim.Adam(model.parameters(), lr=1e-2))
    losses = [training(*batch).item() for batch in batches]
    weights = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    training.destroy()
    return losses, weights


def train_on_cpu(model, batches):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for x, labels in batches:
        optimizer.zero_grad()
        model(x, labels).backward()
        optimizer.step()
    return {name: weight.detach() for name, weight in model.named_parameters()}


def main():
    torch.manual_seed(0)
    start = Deep()
    accumulation = 2 * 4 - 1  # a pipeline of S stages needs 2 * S - 1 micro-batches to be full
    rows = MICRO_BATCH * accumulation
    batches = [(torch.randn(rows, 10), torch.randint(0, 4, (rows,))) for _ in range(20)]
    expected = train_on_cpu(copy.deepcopy(start), batches)

    strategies = {
        "on one IPU": None,
        "pipelined": poptorch.PipelinedExecution(*[f"part {i}" for i in range(4)]),
        "sharded": poptorch.ShardedExecution(*[f"part {i}" for i in range(4)]),
    }
    for name, strategy in strategies.items():
        model = copy.deepcopy(start)
        losses, weights = train(model if strategy is None else split(model), make_options(strategy, accumulation), batches)
        for key, weight in weights.items():
            torch.testing.assert_close(weight, expected[key], rtol=1e-3, atol=1e-4)
        print(f"{name:10s}: loss {losses[0]:.3f} -> {losses[-1]:.3f}, the weights are those of the CPU")

    try:
        train(split(copy.deepcopy(start)), make_options(strategies["pipelined"], 2), [(b[0][:8], b[1][:8]) for b in batches])
    except poptorch.Error as error:
        print(f"too few micro-batches for the pipeline: {error.message.splitlines()[0][:110]}...")
    else:
        raise AssertionError("a pipeline that is never full was accepted")


if __name__ == "__main__":
    main()
