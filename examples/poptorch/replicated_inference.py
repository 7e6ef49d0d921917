"""Inference on four replicas, three micro-batches each for a call: results come back in the order of the rows."""

import poptorch
import torch
from torch import nn

MICRO_BATCH, REPLICAS, ITERATIONS = 2, 4, 3


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.head = nn.Linear(32, 5)

    def forward(self, images):
        features = self.conv(images).flatten(1)
        return {"scores": self.head(features).softmax(1), "norm": features.norm(dim=1)}


def main():
    torch.manual_seed(0)
    model = Encoder().eval()
    options = poptorch.Options().replicationFactor(REPLICAS).deviceIterations(ITERATIONS)
    inference = poptorch.inferenceModel(model, options)  # outputMode All: every micro-batch's results
    rows = MICRO_BATCH * REPLICAS * ITERATIONS
    images = torch.randn(4 * rows, 1, 8, 8)

    results = [inference(part) for part in images.split(rows)]
    scores = torch.cat([r["scores"] for r in results])
    with torch.no_grad():
        expected = model(images)
    torch.testing.assert_close(scores, expected["scores"], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(torch.cat([r["norm"] for r in results]), expected["norm"], rtol=1e-4, atol=1e-5)
    print(f"{len(results)} calls of {rows} rows on {REPLICAS} replicas: all {len(scores)} results are those of the CPU")

    summed = poptorch.inferenceModel(model, options.clone().outputMode(poptorch.OutputMode.Sum))
    totals = summed(images[:rows])["norm"]  # of each replica, added up over its micro-batches
    by_replica = expected["norm"][:rows].view(ITERATIONS, REPLICAS, MICRO_BATCH).sum(0).flatten()
    torch.testing.assert_close(totals, by_replica, rtol=1e-4, atol=1e-5)
    print("sums of every replica too")


if __name__ == "__main__":
    main()
