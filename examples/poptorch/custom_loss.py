"""A loss of one's own: computed by any operations, marked by identity_loss as what to differentiate."""

import copy

import poptorch
import torch
from torch import nn
from torch.nn import functional as F


class Focal(nn.Module):
    """Cross-entropy that pays less attention to what is right already, and a penalty on large scores."""

    def __init__(self, net: nn.Module, gamma: float = 2.0) -> None:
        super().__init__()
        self.net, self.gamma = net, gamma

    def forward(self, x, labels):
        scores = self.net(x)
        log_p = F.log_softmax(scores, dim=1).gather(1, labels.unsqueeze(1)).squeeze(1)
        focal = -((1 - log_p.exp()) ** self.gamma * log_p)
        penalty = 1e-3 * scores.square().mean(1)
        return scores, poptorch.identity_loss(focal + penalty, reduction="mean")


class Unmarked(Focal):
    def forward(self, x, labels):
        return self.net(x).square().mean()


def main():
    torch.manual_seed(0)
    model = Focal(nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 4)))
    cpu_model = copy.deepcopy(model)
    project = torch.randn(6, 4)
    batches = []
    for _ in range(100):
        x = torch.randn(32, 6)
        batches.append((x, (x @ project).argmax(1)))

    training = poptorch.trainingModel(model, optimizer=torch.optim.Adam(model.parameters(), lr=1e-2))
    losses = [training(*batch)[1].item() for batch in batches]
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")

    optimizer = torch.optim.Adam(cpu_model.parameters(), lr=1e-2)
    for (x, labels), on_ipu in zip(batches, losses):
        optimizer.zero_grad()
        _, loss = cpu_model(x, labels)  # outside an IPU identity_loss only reduces
        loss.backward()
        optimizer.step()
        assert abs(loss.item() - on_ipu) < 1e-3, (loss.item(), on_ipu)
    print("every loss is that of the CPU")

    try:
        poptorch.trainingModel(Unmarked(nn.Linear(6, 4)))(*batches[0])
    except poptorch.Error as error:
        print(f"without a mark: {error.message.splitlines()[0][:80]}...")
    else:
        raise AssertionError("a model without a loss was accepted")


if __name__ == "__main__":
    main()
