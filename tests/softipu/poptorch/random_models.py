"""Random small models out of supported operations, drawn by hypothesis: a tree of layers and functions over one tensor."""

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Tuple

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import nn

Shape = Tuple[int, ...]


@dataclass(frozen=True)
class Piece:
    """One operation of a model.

    Attributes:
        name: of its maker in PIECES.
        shape: of what it takes, without the batch dimension.
        choice: which of its variants.
    """

    name: str
    shape: Shape
    choice: int


class Function(nn.Module):
    """A function of one tensor as a module."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Residual(nn.Module):
    def __init__(self, *inner: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(*inner)

    def forward(self, x):
        return x + self.inner(x)


class InPlace(nn.Module):
    def __init__(self, change: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.change = change

    def forward(self, x):
        y = x * 1.5
        self.change(y)
        return y + x


class Counting(nn.Module):
    """Writes a buffer, and uses it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1.0
        return x * (1.0 + 0.01 * self.seen)


class Recurrent(nn.Module):
    def __init__(self, kind: type, width: int) -> None:
        super().__init__()
        self.cell = kind(width, width, batch_first=True)

    def forward(self, x):
        return self.cell(x)[0]


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2 if width % 2 == 0 else 1, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


UNARY: List[Callable[[torch.Tensor], torch.Tensor]] = [
    torch.tanh, torch.sigmoid, torch.sin, torch.cos, torch.relu, F.gelu, F.silu, F.softplus, F.elu, F.leaky_relu, F.mish, torch.atan,
    torch.asinh, lambda x: torch.exp(-x * x), lambda x: torch.log1p(x * x), lambda x: torch.sqrt(x * x + 1), lambda x: 1 / (1 + x * x),
    lambda x: torch.clamp(x, -1.0, 1.0), lambda x: x * 2.0 - 1.0, lambda x: torch.where(x > 0, x, 0.5 * x), lambda x: x.abs() + 0.1,
    lambda x: torch.pow(x * x + 0.5, 1.5), lambda x: torch.rsqrt(x * x + 0.5), lambda x: torch.remainder(x, 3.0), lambda x: -x,
    lambda x: torch.maximum(x, -x * 0.5), lambda x: torch.nan_to_num(x), lambda x: torch.addcmul(x, x, x, value=0.1),
    lambda x: x.masked_fill(x > 1.0, 0.25), lambda x: torch.lerp(x, torch.zeros_like(x), 0.25), torch.square,
]  # fmt: skip

OVER_LAST: List[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: F.softmax(x, -1), lambda x: F.log_softmax(x, -1), lambda x: torch.cumsum(x, -1), lambda x: x - x.mean(-1, keepdim=True),
    lambda x: x / (x.norm(dim=-1, keepdim=True) + 1.0), lambda x: torch.roll(x, 1, -1), lambda x: x - x.amax(-1, keepdim=True),
    lambda x: x * x.var(-1, keepdim=True, unbiased=False), lambda x: torch.sort(x, -1)[0],
    lambda x: x + torch.logsumexp(x, -1, keepdim=True), lambda x: x.unsqueeze(-1).squeeze(-1),
    lambda x: torch.cat(torch.chunk(x, 2, -1)[::-1], -1), lambda x: torch.stack(torch.unbind(x, -1), -1),
]  # fmt: skip

CHANGES: List[Callable[[torch.Tensor], Any]] = [
    lambda y: y.add_(1.0), lambda y: y.mul_(0.5), lambda y: y.relu_(), lambda y: y.clamp_(-1.0, 1.0), lambda y: y[..., :1].zero_(),
    lambda y: y.copy_(y.detach().abs() + y.sum()), lambda y: y.neg_(), lambda y: y[..., 0].fill_(0.5),
]  # fmt: skip


def _make(piece: Piece) -> Tuple[nn.Module, Shape]:
    """The module of a piece, and the shape that it returns."""
    shape, choice = piece.shape, piece.choice
    width = shape[-1]
    if piece.name == "linear":
        wanted = 2 + choice % 5
        return nn.Linear(width, wanted, bias=choice % 3 > 0), (*shape[:-1], wanted)
    if piece.name == "unary":
        return Function(UNARY[choice % len(UNARY)]), shape
    if piece.name == "over last":
        return Function(OVER_LAST[choice % len(OVER_LAST)]), shape
    if piece.name == "in place":
        return InPlace(CHANGES[choice % len(CHANGES)]), shape
    if piece.name == "layer norm":
        return nn.LayerNorm(width, elementwise_affine=choice % 2 == 0), shape
    if piece.name == "residual":
        return Residual(nn.Linear(width, width), Function(UNARY[choice % len(UNARY)])), shape
    if piece.name == "counting":
        return Counting(), shape
    if piece.name == "batch norm":
        return _FOR_RANK[len(shape)][0](shape[0]), shape
    if piece.name == "convolution":
        channels = 2 + choice % 3
        return _FOR_RANK[len(shape)][1](shape[0], channels, 3, padding=1, bias=choice % 2 == 0), (channels, *shape[1:])
    if piece.name == "pool":
        kind = _FOR_RANK[len(shape)][2 + choice % 2]
        return kind(3, stride=1, padding=1), shape
    if piece.name == "recurrent":
        return Recurrent((nn.LSTM, nn.GRU, nn.RNN)[choice % 3], width), shape
    if piece.name == "attention":
        return Attention(width), shape
    assert piece.name == "transpose", piece.name
    return Function(lambda x: x.transpose(-1, -2)), (*shape[:-2], shape[-1], shape[-2])


_FOR_RANK: Dict[int, Any] = {
    1: (nn.BatchNorm1d,),
    2: (nn.BatchNorm1d, nn.Conv1d, nn.MaxPool1d, nn.AvgPool1d),
    3: (nn.BatchNorm2d, nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d),
}
_ANY = ("linear", "unary", "unary", "over last", "in place", "layer norm", "residual", "counting", "batch norm")
_FOR_PICTURES = ("convolution", "pool", "transpose")
_FOR_SEQUENCES = ("recurrent", "attention")

LOSSES: List[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
    F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.binary_cross_entropy_with_logits,
    lambda y, t: F.kl_div(F.log_softmax(y, -1), F.softmax(t, -1), reduction="sum"),
]  # fmt: skip


class Model(nn.Module):
    """Pieces one after another, and a loss against a target that the last one gives the shape of."""

    def __init__(self, pieces: List[Piece], loss: int) -> None:
        super().__init__()
        made = [_make(piece) for piece in pieces]
        first = pieces[0].shape[-1]
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, first))  # so that there is always something to train
        self.body = nn.Sequential(*[module for module, _ in made])
        self.loss = LOSSES[loss % len(LOSSES)]

    def forward(self, x):
        y = self.body(x * self.scale)
        return y, self.loss(y, torch.full_like(y, 0.5))


@dataclass(frozen=True)
class Drawn:
    """A model and how to train it."""

    pieces: Tuple[Piece, ...]
    loss: int
    n_rows: int
    seed: int
    optimizer: str
    iterations: int
    accumulation: int
    replicas: int


OPTIMIZERS: Dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, eps=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-3),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, eps=1e-2),
}


@st.composite
def models(draw: Callable[[Any], Any]) -> Drawn:
    """A model of one to six pieces on vectors, sequences or pictures."""
    shape: Shape = draw(st.sampled_from([(4,), (6,), (3, 4), (5, 2), (2, 4, 4), (3, 3, 5)]))
    pieces: List[Piece] = []
    for _ in range(draw(st.integers(1, 6))):
        names = _ANY + (_FOR_PICTURES if len(shape) > 1 else ()) + (_FOR_SEQUENCES if len(shape) == 2 else ())
        piece = Piece(draw(st.sampled_from(names)), shape, draw(st.integers(0, 59)))
        pieces.append(piece)
        shape = _make(piece)[1]
    iterations, accumulation, replicas = draw(st.sampled_from([(1, 1, 1), (1, 1, 1), (2, 1, 1), (1, 3, 1), (1, 1, 2), (2, 2, 2)]))
    if any(piece.name == "counting" for piece in pieces):
        replicas = 1  # a buffer that is written is each replica's own
    return Drawn(
        tuple(pieces), draw(st.integers(0, 59)), draw(st.integers(2, 4)), draw(st.integers(0, 10**6)),
        draw(st.sampled_from(sorted(OPTIMIZERS))), iterations, accumulation, replicas,
    )  # fmt: skip
