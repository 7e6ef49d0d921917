"""Small models of the kinds that people train, each with a batch maker, for comparison with eager torch."""

import torch
import torch.nn.functional as F
from torch import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))

    def forward(self, x, y):
        return F.cross_entropy(self.body(x), y)

    @staticmethod
    def batch(n, generator):
        return torch.randn(n, 6, generator=generator), torch.randint(0, 3, (n,), generator=generator)


class ResidualNet(nn.Module):
    """A residual block with BatchNorm."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3, padding=1)
        self.bn1, self.bn2 = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        self.conv = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.head = nn.Linear(4, 3)

    def forward(self, x, y):
        x = F.relu(self.bn1(self.stem(x)))
        x = F.relu(x + self.bn2(self.conv(x)), inplace=True)
        return F.cross_entropy(self.head(F.max_pool2d(x, 2).mean((2, 3))), y)

    @staticmethod
    def batch(n, generator):
        return torch.randn(n, 2, 6, 6, generator=generator), torch.randint(0, 3, (n,), generator=generator)


class TransformerBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x, y):
        return F.cross_entropy(self.head(self.layer(x).mean(1)), y)

    @staticmethod
    def batch(n, generator):
        return torch.randn(n, 5, 8, generator=generator), torch.randint(0, 3, (n,), generator=generator)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x, y):
        output, _ = self.lstm(x)
        return F.cross_entropy(self.head(output[:, -1]), y)

    @staticmethod
    def batch(n, generator):
        return torch.randn(n, 5, 4, generator=generator), torch.randint(0, 3, (n,), generator=generator)


class TiedEmbedding(nn.Module):
    """A language model whose output layer shares the embedding's weights; one frozen parameter."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.position = nn.Parameter(torch.randn(5, 6), requires_grad=False)
        self.mix = nn.Linear(6, 6)
        self.output = nn.Linear(6, 11, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, ids, y):
        hidden = self.mix(self.embedding(ids) + self.position)
        return F.cross_entropy(self.output(hidden).flatten(0, 1), y.flatten())

    @staticmethod
    def batch(n, generator):
        return torch.randint(0, 11, (n, 5), generator=generator), torch.randint(0, 11, (n, 5), generator=generator)


MODELS = [Mlp, ResidualNet, TransformerBlock, Recurrent, TiedEmbedding]

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "dampened": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-3, eps=1e-5, weight_decay=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, eps=1e-5, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-4, eps=1e-4, momentum=0.5),
    "centered": lambda p: torch.optim.RMSprop(p, lr=1e-4, eps=1e-3, centered=True),
}
