"""The models that training speed is measured on. Each computes its own loss, so that every contender runs the same arithmetic.

B rows, D width, T tokens.
"""

from dataclasses import dataclass
from typing import Callable, Dict, Tuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset


class MLP(nn.Module):
    """784-128-10 on flat images."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(784, 128), nn.Linear(128, 10)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.head(F.relu(self.hidden(x))), y)


class ResidualBlock(nn.Module):
    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False), nn.BatchNorm2d(n_out)
        self.conv2, self.norm2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False), nn.BatchNorm2d(n_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.shortcut = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(h)) + self.shortcut(x))


class ResNet(nn.Module):
    """14 convolutions for 32x32 images: widths 16, 32, 64, two blocks each."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        blocks, width = [], 16
        for n_out, stride in ((16, 1), (32, 2), (64, 2)):
            blocks += [ResidualBlock(width, n_out, stride), ResidualBlock(n_out, n_out, 1)]
            width = n_out
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.head(self.blocks(self.stem(x)).mean((2, 3))), y)


class GPTBlock(nn.Module):
    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.n_heads = n_heads

    def forward(self, x_BTD: torch.Tensor) -> torch.Tensor:
        b, t, d = x_BTD.shape
        q, k, v = (z.view(b, t, self.n_heads, d // self.n_heads).transpose(1, 2) for z in self.qkv(self.norm1(x_BTD)).split(d, 2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x_BTD = x_BTD + self.out(mixed.transpose(1, 2).reshape(b, t, d))
        return x_BTD + self.mlp(self.norm2(x_BTD))


class GPT(nn.Module):
    """4 layers of width 128 over 64 tokens of a 256-symbol alphabet."""

    n_symbols, n_tokens = 256, 64

    def __init__(self, width: int = 128, n_layers: int = 4, n_heads: int = 4) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(self.n_symbols, width), nn.Parameter(torch.zeros(1, self.n_tokens, width))
        self.blocks = nn.Sequential(*[GPTBlock(width, n_heads) for _ in range(n_layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, self.n_symbols, bias=False)

    def forward(self, x_BT: torch.Tensor, y_BT: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.norm(self.blocks(self.tokens(x_BT) + self.places)))
        return F.cross_entropy(logits.view(-1, self.n_symbols), y_BT.view(-1))


class BERT(nn.Module):
    """transformers' BERT-Base as a sequence classifier."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import BertConfig, BertForSequenceClassification

        self.bert = BertForSequenceClassification(BertConfig())

    def forward(self, x_BT: torch.Tensor, y_B: torch.Tensor) -> torch.Tensor:
        return self.bert(input_ids=x_BT, labels=y_B).loss


class Repeated(Dataset):
    """A few random samples, repeated up to ``length``."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, length: int) -> None:
        self._samples, self._length = [(x[i], y[i]) for i in range(len(x))], length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Tuple[torch.Tensor, torch.Tensor]:
        return self._samples[index % len(self._samples)]


@dataclass(frozen=True)
class Workload:
    """A model with its batch.

    Attributes:
        module: makes the model.
        samples: makes ``n`` samples and their targets.
        batch_size: rows of a micro-batch.
        n_accumulated: micro-batches per weight update.
        device_iterations: those that it is measured at.
    """

    module: Callable[[], nn.Module]
    samples: Callable[[int], Tuple[torch.Tensor, torch.Tensor]]
    batch_size: int
    n_accumulated: int = 1
    device_iterations: Tuple[int, ...] = (1, 16)

    def dataset(self) -> Dataset:
        """Enough weight updates for an epoch that its end does not count."""
        n_distinct = self.batch_size * 16
        x, y = self.samples(n_distinct)
        return Repeated(x, y, self.batch_size * self.n_accumulated * 16 * 64)


def _images(*shape: int) -> Callable[[int], Tuple[torch.Tensor, torch.Tensor]]:
    return lambda n: (torch.randn(n, *shape), torch.randint(0, 10, (n,)))


def _text(n: int) -> Tuple[torch.Tensor, torch.Tensor]:
    shape = (n, GPT.n_tokens)
    return torch.randint(0, GPT.n_symbols, shape), torch.randint(0, GPT.n_symbols, shape)


def _sentences(n: int) -> Tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, 30522, (n, 128)), torch.randint(0, 2, (n,))


WORKLOADS: Dict[str, Workload] = {
    "mlp": Workload(MLP, _images(784), 16),
    "resnet": Workload(ResNet, _images(3, 32, 32), 16),
    "gpt": Workload(GPT, _text, 8),
    "bert": Workload(BERT, _sentences, 2),
    "gpt-accumulate": Workload(GPT, _text, 1, n_accumulated=32, device_iterations=(1,)),
}
