"""How many rows a call takes, and how they come from a data set without the device having to wait."""

import copy

import poptorch
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

MICRO_BATCH, ITERATIONS, ACCUMULATION, REPLICAS = 4, 2, 3, 2


class Regression(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x, y):
        return F.mse_loss(self.net(x), y)


def make_options():
    options = poptorch.Options()
    options.deviceIterations(ITERATIONS)  # weight updates for each call
    options.replicationFactor(REPLICAS)  # copies of the model
    options.Training.gradientAccumulation(ACCUMULATION)  # micro-batches of each copy for one update
    options.outputMode(poptorch.OutputMode.All)  # the losses of all micro-batches
    options.randomSeed(0)
    return options


def train_on_cpu(model, dataset, epochs):
    """The same updates: each from the mean of ACCUMULATION x REPLICAS micro-batches."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    rows_per_update = MICRO_BATCH * ACCUMULATION * REPLICAS
    rows_per_call = rows_per_update * ITERATIONS
    x, y = dataset.tensors
    for _ in range(epochs):
        for start in range(0, len(x) // rows_per_call * rows_per_call, rows_per_update):
            optimizer.zero_grad()
            model(x[start : start + rows_per_update], y[start : start + rows_per_update]).backward()
            optimizer.step()


def main():
    torch.manual_seed(1)
    x = torch.randn(500, 8)
    dataset = TensorDataset(x, x[:, :1] * x[:, 1:2] + 0.5)
    for mode in (poptorch.DataLoaderMode.Sync, poptorch.DataLoaderMode.Async):
        torch.manual_seed(2)
        model = Regression()
        cpu_model = copy.deepcopy(model)
        options = make_options()
        training = poptorch.trainingModel(model, options, torch.optim.AdamW(model.parameters(), lr=1e-2))
        loader = poptorch.DataLoader(options, dataset, batch_size=MICRO_BATCH, mode=mode)
        print(f"{mode.name}: a call takes {loader.combinedBatchSize} rows, an epoch has {len(loader)} calls")
        for epoch in range(5):
            losses = torch.cat([training(*batch) for batch in loader])
            print(f"  epoch {epoch}: mean of {len(losses)} losses {losses.mean().item():.4f}")
        loader.terminate()
        train_on_cpu(cpu_model, dataset, epochs=5)
        for weight, expected in zip(model.parameters(), cpu_model.parameters()):
            torch.testing.assert_close(weight.detach(), expected.detach(), rtol=1e-3, atol=1e-4)
        print("  the weights are those of the CPU")


if __name__ == "__main__":
    main()
