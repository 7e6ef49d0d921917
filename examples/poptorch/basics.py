"""A model learns on the IPU, is used for inference, and has the weights that the CPU would have found."""

import copy

import poptorch
import torch
from torch import nn
from torch.nn import functional as F


class Classifier(nn.Module):
    """Points of the plane in three classes. With labels it returns the loss too: PopTorch differentiates what forward computes."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 3))

    def forward(self, points, labels=None):
        scores = self.net(points)
        if labels is None:
            return scores
        return scores, F.cross_entropy(scores, labels)


def make_points(n):
    points = torch.randn(n, 2)
    angle = torch.atan2(points[:, 1], points[:, 0])
    return points, ((angle + torch.pi) / (2 * torch.pi) * 3).long().clamp(max=2)


def train_on_cpu(model, optimizer, schedule, batches):
    for points, labels in batches:
        optimizer.zero_grad()
        _, loss = model(points, labels)
        loss.backward()
        optimizer.step()
        schedule.step()


def main():
    torch.manual_seed(0)
    model = Classifier()
    cpu_model = copy.deepcopy(model)
    batches = [make_points(64) for _ in range(150)]

    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=50, gamma=0.5)
    training = poptorch.trainingModel(model, poptorch.Options(), optimizer)
    inference = poptorch.inferenceModel(model)

    for step, (points, labels) in enumerate(batches):
        _, loss = training(points, labels)  # forward, backward and update
        schedule.step()
        training.setOptimizer(optimizer)  # the device learns of the new rate only by this
        if step % 50 == 0:
            print(f"step {step:3d}: loss {loss.item():.3f}")

    points, labels = make_points(512)
    right = (inference(points).argmax(1) == labels).float().mean().item()  # takes over the trained weights by itself
    print(f"right answers: {100 * right:.1f}%")

    cpu_optimizer = torch.optim.SGD(cpu_model.parameters(), lr=0.5, momentum=0.9)
    train_on_cpu(cpu_model, cpu_optimizer, torch.optim.lr_scheduler.StepLR(cpu_optimizer, 50, 0.5), batches)
    for name, weight in model.named_parameters():  # reading a weight fetches it from the device
        torch.testing.assert_close(weight.detach(), dict(cpu_model.named_parameters())[name].detach(), rtol=1e-3, atol=1e-4)
    print("the weights are those of the CPU")


if __name__ == "__main__":
    main()
