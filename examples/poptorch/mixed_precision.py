"""Training in half precision: half weights and activations, a scaled loss, accumulators and momenta of a type of their own."""

import copy

import poptorch
import torch
from torch import nn
from torch.nn import functional as F


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.LayerNorm(48), nn.Linear(48, 3))

    def forward(self, x, labels):
        scores = self.net(x)
        return scores, F.cross_entropy(scores.float(), labels)  # the loss in float: half has three digits only


def accuracy(scores, labels):
    return (scores.argmax(1) == labels).float().mean().item()


def main():
    torch.manual_seed(0)
    start = Classifier()
    project = torch.randn(12, 3)
    batches = []
    for _ in range(120):
        x = torch.randn(96, 12)
        batches.append((x, (x @ project).argmax(1)))

    cpu_model = copy.deepcopy(start)
    optimizer = torch.optim.AdamW(cpu_model.parameters(), lr=1e-2, eps=1e-5)
    for x, labels in batches:
        optimizer.zero_grad()
        cpu_scores, cpu_loss = cpu_model(x, labels)
        cpu_loss.backward()
        optimizer.step()
    print(f"CPU, float32:  loss {cpu_loss.item():.3f}, right {accuracy(cpu_scores, labels):.0%}")

    model = copy.deepcopy(start).half()
    options = poptorch.Options()
    options.Training.gradientAccumulation(3)
    options.outputMode(poptorch.OutputMode.All)
    options.Precision.enableStochasticRounding(True)  # small updates of half weights are not lost on average
    half_optimizer = poptorch.optim.AdamW(
        model.parameters(),
        lr=1e-2,
        eps=1e-5,
        loss_scaling=128.0,  # small gradients would be zero in half
        accum_type=torch.float16,  # accumulated gradients: half the memory
        first_order_momentum_accum_type=torch.float16,
        second_order_momentum_accum_type=torch.float32,  # squares need the range
    )
    training = poptorch.trainingModel(model, options, half_optimizer)
    for x, labels in batches:
        scores, losses = training(x.half(), labels)
    print(f"IPU, float16:  loss {losses.mean().item():.3f}, right {accuracy(scores.float(), labels):.0%}")
    assert scores.dtype == torch.float16 and model.net[0].weight.dtype == torch.float16

    # Half rounds every result to eleven bits, so single weights differ; what the model has learnt does not.
    assert abs(losses.mean().item() - cpu_loss.item()) < 0.1
    assert accuracy(scores.float(), labels) > accuracy(cpu_scores, labels) - 0.05
    print("half precision learns what float learns on the CPU")


if __name__ == "__main__":
    main()
