"""One small example of every operation that PopTorch's user guide lists as supported (names without ``torch.``)."""

from dataclasses import dataclass
from typing import Any, Callable, Dict, Tuple

import torch
import torch.nn.functional as F
from torch import nn

Tensors = Tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Example:
    """An operation on some tensors.

    Attributes:
        make: makes what is called: a module, or a function.
        inputs: its tensors; float ones are trained too.
        is_random: whether two runs differ, so that values cannot be compared.
        in_half: whether the operation exists for half values.
        has_gradient: whether its result depends on float inputs in a way that has a gradient.
    """

    make: Callable[[], Callable[..., Any]]
    inputs: Callable[[], Tensors]
    is_random: bool = False
    in_half: bool = True
    has_gradient: bool = True


def x(*shape: int, low: float = -2.0, high: float = 2.0) -> torch.Tensor:
    """Uniform floats, the same for the same shape and limits, each exact in half precision and none near 0."""
    generator = torch.Generator().manual_seed(sum(shape) + 7 * len(shape))
    values = torch.rand(*shape, generator=generator) * (high - low) + low
    values = values.half().float()
    return torch.where(values.abs() < 0.05, values + 0.25, values)


def ints(*shape: int, high: int = 4) -> torch.Tensor:
    """Integers from 0 to high - 1."""
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(sum(shape)))


def bools(*shape: int) -> torch.Tensor:
    return ints(*shape, high=2).bool()


def ex(function: Callable[..., Any], *inputs: torch.Tensor, **flags: Any) -> Example:
    """An example of a function."""
    return Example(lambda: function, lambda: tuple(t.clone() for t in inputs), **flags)


def layer(make: Callable[[], nn.Module], *inputs: torch.Tensor, **flags: Any) -> Example:
    """An example of a module."""
    return Example(make, lambda: tuple(t.clone() for t in inputs), **flags)


def flat(**flags: Any) -> Dict[str, Any]:
    """Flags of operations without gradient."""
    return {"has_gradient": False, **flags}


A = x(3, 4)
B = x(3, 4, low=0.5, high=3.0)
POSITIVE = x(3, 4, low=0.25, high=3.0)
UNIT = x(3, 4, low=-0.9, high=0.9)
SQUARE = x(4, 4)
BATCH = x(2, 3, 4)
SEQUENCE = x(2, 3, 8)
IMAGE = x(2, 3, 6, 6)
VOLUME = x(1, 2, 4, 4, 4)

CREATION: Dict[str, Example] = {
    "arange": ex(lambda a: torch.arange(5, device=a.device) + a[0, 0], A),
    "tensor.fill": ex(lambda a: a.clone().fill_(2.0) + a, A),
    "full": ex(lambda a: torch.full((3, 4), 2.5) * a, A, in_half=False),
    "full_like": ex(lambda a: torch.full_like(a, 2.5) * a, A),
    "Tensor.new_ones": ex(lambda a: a.new_ones(3, 4) * a, A),
    "Tensor.new_zeros": ex(lambda a: a.new_zeros(3, 4) + a, A),
    "ones": ex(lambda a: torch.ones(3, 4) * a, A, in_half=False),
    "ones_like": ex(lambda a: torch.ones_like(a) * a, A),
    "zeros": ex(lambda a: torch.zeros(3, 4) + a, A, in_half=False),
    "zeros_like": ex(lambda a: torch.zeros_like(a) + a, A),
}

INDEXING: Dict[str, Example] = {
    "bincount": ex(lambda i: torch.bincount(i, minlength=4), ints(10), **flat()),
    "bucketize": ex(lambda a: torch.bucketize(a, torch.tensor([-1.0, 0.0, 1.0], dtype=a.dtype)), A, **flat()),
    "cat": ex(lambda a, b: torch.cat([a, b], 1), A, B),
    "chunk": ex(lambda a: torch.chunk(a, 2, 1), A),
    "gather": ex(lambda a, i: torch.gather(a, 1, i), A, ints(3, 2)),
    "index_select": ex(lambda a, i: torch.index_select(a, 0, i), A, ints(5, high=3)),
    "index_reduce": ex(lambda a, b, i: torch.index_reduce(a, 0, i, b, "mean"), A, B, torch.tensor([0, 2, 0])),
    "reshape": ex(lambda a: torch.reshape(a, (2, 6)), A),
    "roll": ex(lambda a: torch.roll(a, 1, 0), A),
    "scatter": ex(lambda a, i: torch.scatter(torch.zeros_like(a), 1, i, a), SQUARE, torch.tensor([[0, 1, 2, 3]] * 4)),
    "scatter_add": ex(lambda a, i: torch.scatter_add(torch.zeros_like(a), 1, i, a), A, ints(3, 4)),
    "scatter_reduce": ex(lambda a, i: torch.scatter_reduce(torch.zeros_like(a), 1, i, a, "sum"), A, ints(3, 4)),
    "stack": ex(lambda a, b: torch.stack([a, b], 1), A, B),
    "split": ex(lambda a: torch.split(a, [1, 3], 1), A),
    "squeeze": ex(lambda a: torch.squeeze(a.unsqueeze(1)), A),
    "t": ex(torch.t, A),
    "take_along_dim": ex(lambda a, i: torch.take_along_dim(a, i, 1), A, ints(3, 2)),
    "transpose": ex(lambda a: torch.transpose(a, 0, 2), BATCH),
    "unbind": ex(lambda a: torch.unbind(a, 1), A),
    "unsqueeze": ex(lambda a: torch.unsqueeze(a, 1), A),
    "where": ex(lambda a, b: torch.where(a > 0, a, b), A, B),
    "tensor.expand": ex(lambda a: a.expand(2, 3, 4), A),
    "tensor.expand_as": ex(lambda a, b: a.expand_as(b), A, BATCH),
    "tensor.masked_fill": ex(lambda a, m: a.masked_fill(m, 0.5), A, bools(3, 4)),
    "tensor.index_fill_": ex(lambda a: a.clone().index_fill_(0, torch.tensor([0, 2]), 0.5), A),
}

RANDOM: Dict[str, Example] = {
    "bernoulli": ex(lambda a: torch.bernoulli(torch.full_like(a, 0.5)) * a, A, is_random=True),
    "distributions.Bernoulli": ex(lambda a: torch.distributions.Bernoulli(torch.full_like(a, 0.5)).sample() * a, A, is_random=True),
    "randn": ex(lambda a: torch.randn(3, 4) * a, A, is_random=True, in_half=False),
    "normal": ex(lambda a: torch.normal(torch.zeros_like(a), torch.ones_like(a)) * a, A, is_random=True),
    "distributions.Normal": ex(
        lambda a: torch.distributions.Normal(torch.zeros_like(a), torch.ones_like(a)).rsample() * a, A, is_random=True
    ),
    "rand": ex(lambda a: torch.rand(3, 4) * a, A, is_random=True, in_half=False),
    "uniform": ex(lambda a: torch.empty_like(a).uniform_(0.0, 1.0) * a, A, is_random=True),
    "distributions.Uniform": ex(
        lambda a: torch.distributions.Uniform(torch.zeros_like(a), torch.ones_like(a)).rsample() * a, A, is_random=True
    ),
    "exponential": ex(lambda a: torch.empty_like(a).exponential_(1.0) * a, A, is_random=True),
    "distributions.Exponential": ex(lambda a: torch.distributions.Exponential(torch.ones_like(a)).rsample() * a, A, is_random=True),
    "randperm": ex(lambda a: torch.randperm(5) + a[0, 0], A, is_random=True),
    "nn.dropout": layer(lambda: nn.Dropout(0.5), A, is_random=True),
    "nn.RReLU": layer(lambda: nn.RReLU(), A, is_random=True),
}

POINTWISE: Dict[str, Example] = {
    "abs": ex(torch.abs, A),
    "acos": ex(torch.acos, UNIT),
    "acosh": ex(torch.acosh, x(3, 4, low=1.25, high=3.0)),
    "add": ex(torch.add, A, B),
    "addcdiv": ex(lambda a, b, c: torch.addcdiv(a, b, c, value=0.5), A, BATCH[0], B),
    "amax": ex(lambda a: torch.amax(a, 1), A),
    "amin": ex(lambda a: torch.amin(a, 1), A),
    "asin": ex(torch.asin, UNIT),
    "asinh": ex(torch.asinh, A),
    "atan": ex(torch.atan, A),
    "atanh": ex(torch.atanh, UNIT),
    "bitwise_and": ex(torch.bitwise_and, ints(5), ints(5), **flat()),
    "bitwise_not": ex(torch.bitwise_not, ints(5), **flat()),
    "bitwise_or": ex(torch.bitwise_or, ints(5), ints(5), **flat()),
    "bitwise_xor": ex(torch.bitwise_xor, ints(5), ints(5), **flat()),
    "cdist": ex(torch.cdist, x(3, 4), x(5, 4)),
    "ceil": ex(torch.ceil, A),
    "clamp": ex(lambda a: torch.clamp(a, -1.0, 1.0), A),
    "clamp_max": ex(lambda a: torch.clamp_max(a, 1.0), A),
    "clamp_min": ex(lambda a: torch.clamp_min(a, -1.0), A),
    "cos": ex(torch.cos, A),
    "cosh": ex(torch.cosh, A),
    "div": ex(torch.div, A, B),
    "exp": ex(torch.exp, A),
    "expm1": ex(torch.expm1, A),
    "floor": ex(torch.floor, A),
    "floor_divide": ex(torch.floor_divide, A, B, **flat()),
    "fmod": ex(torch.fmod, A, B),
    "frac": ex(torch.frac, A),
    "log": ex(torch.log, POSITIVE),
    "log10": ex(torch.log10, POSITIVE),
    "log1p": ex(torch.log1p, POSITIVE),
    "log2": ex(torch.log2, POSITIVE),
    "logical_and": ex(torch.logical_and, bools(5), bools(5), **flat()),
    "logical_or": ex(torch.logical_or, bools(5), bools(5), **flat()),
    "mul": ex(torch.mul, A, B),
    "norm": ex(torch.norm, A),
    "neg": ex(torch.neg, A),
    "pow": ex(lambda a: torch.pow(a, 2.5), POSITIVE),
    "reciprocal": ex(torch.reciprocal, POSITIVE),
    "remainder": ex(torch.remainder, A, B),
    "round": ex(torch.round, A),
    "rsqrt": ex(torch.rsqrt, POSITIVE),
    "sigmoid": ex(torch.sigmoid, A),
    "sign": ex(torch.sign, A),
    "sin": ex(torch.sin, A),
    "sinh": ex(torch.sinh, A),
    "sqrt": ex(torch.sqrt, POSITIVE),
    "square": ex(torch.square, A),
    "sub": ex(torch.sub, A, B),
    "tan": ex(torch.tan, UNIT),
    "tanh": ex(torch.tanh, A),
    "true_divide": ex(torch.true_divide, A, B),
    "trunc": ex(torch.trunc, A),
}

REDUCTIONS: Dict[str, Example] = {
    "all": ex(lambda m: torch.all(m, 1), bools(3, 4), **flat()),
    "any": ex(lambda m: torch.any(m, 1), bools(3, 4), **flat()),
    "argmax": ex(lambda a: torch.argmax(a, 1), A, **flat()),
    "argmin": ex(lambda a: torch.argmin(a, 1), A, **flat()),
    "count_nonzero": ex(lambda i: torch.count_nonzero(i, 0), ints(3, 4), **flat()),
    "mean": ex(lambda a: torch.mean(a, 1), A),
    "median": ex(lambda a: torch.median(a, 1), x(3, 5)),
    "prod": ex(lambda a: torch.prod(a, 1), A),
    "logsumexp": ex(lambda a: torch.logsumexp(a, 1), A),
    "std": ex(lambda a: torch.std(a, 1), A),
    "std_mean": ex(lambda a: torch.std_mean(a, 1), A),
    "sum": ex(lambda a: torch.sum(a, 1), A),
    "var": ex(lambda a: torch.var(a, 1), A),
    "var_mean": ex(lambda a: torch.var_mean(a, 1), A),
}

COMPARISONS: Dict[str, Example] = {
    "eq": ex(torch.eq, ints(5), ints(5), **flat()),
    "ge": ex(torch.ge, A, B, **flat()),
    "gt": ex(torch.gt, A, B, **flat()),
    "le": ex(torch.le, A, B, **flat()),
    "lt": ex(torch.lt, A, B, **flat()),
    "max": ex(lambda a: torch.max(a, 1), A),
    "min": ex(lambda a: torch.min(a, 1), A),
    "ne": ex(torch.ne, ints(5), ints(5), **flat()),
    "isnan": ex(torch.isnan, A, **flat()),
    "topk": ex(lambda a: torch.topk(a, 2, 1), A),
    "argsort": ex(lambda a: torch.argsort(a, 1), A, **flat()),
    "sort": ex(lambda a: torch.sort(a, 1), A),
}

LINEAR_ALGEBRA: Dict[str, Example] = {
    "linalg.norm": ex(torch.linalg.norm, A),
    "linalg.matrix_norm": ex(torch.linalg.matrix_norm, A),
    "linalg.vector_norm": ex(lambda a: torch.linalg.vector_norm(a, dim=1), A),
    "cumsum": ex(lambda a: torch.cumsum(a, 1), A),
    "cumprod": ex(lambda a: torch.cumprod(a, 1), A),
    "cross": ex(lambda a, b: torch.cross(a, b, dim=0), A, B),
    "meshgrid": ex(lambda a, b: torch.meshgrid(a, b, indexing="ij"), x(3), x(4)),
    "cartesian_prod": ex(torch.cartesian_prod, x(3), x(4)),
    "tensordot": ex(lambda a, b: torch.tensordot(a, b, dims=([1], [0])), A, SQUARE),
    "addmm": ex(torch.addmm, x(3, 4), A, SQUARE),
    "matmul": ex(torch.matmul, BATCH, SQUARE),
    "bmm": ex(torch.bmm, BATCH, x(2, 4, 5)),
}

CONVOLUTIONS: Dict[str, Example] = {
    "nn.Conv1d": layer(lambda: nn.Conv1d(3, 4, 3, padding=1), SEQUENCE),
    "nn.Conv2d": layer(lambda: nn.Conv2d(3, 4, 3, stride=2, padding=1), IMAGE),
    "nn.Conv3d": layer(lambda: nn.Conv3d(2, 4, 3, dilation=1), VOLUME),
    "nn.ConvTranspose1d": layer(lambda: nn.ConvTranspose1d(3, 4, 3, stride=2), SEQUENCE),
    "nn.ConvTranspose2d": layer(lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), IMAGE),
    "nn.ConvTranspose3d": layer(lambda: nn.ConvTranspose3d(2, 3, 2), VOLUME),
    "nn.MaxPool1d": layer(lambda: nn.MaxPool1d(2), SEQUENCE),
    "nn.MaxPool2d": layer(lambda: nn.MaxPool2d(3, 2, padding=1), IMAGE),
    "nn.MaxPool3d": layer(lambda: nn.MaxPool3d(2), VOLUME),
    "nn.AvgPool1d": layer(lambda: nn.AvgPool1d(2), SEQUENCE),
    "nn.AvgPool2d": layer(lambda: nn.AvgPool2d(3, 2, padding=1), IMAGE),
    "nn.AvgPool3d": layer(lambda: nn.AvgPool3d(2), VOLUME),
    "nn.AdaptiveAvgPool1d": layer(lambda: nn.AdaptiveAvgPool1d(4), SEQUENCE),
    "nn.AdaptiveAvgPool2d": layer(lambda: nn.AdaptiveAvgPool2d(2), IMAGE),
    "nn.AdaptiveAvgPool3d": layer(lambda: nn.AdaptiveAvgPool3d(2), VOLUME),
    "nn.ReflectionPad1d": layer(lambda: nn.ReflectionPad1d(2), SEQUENCE),
    "nn.ReflectionPad2d": layer(lambda: nn.ReflectionPad2d(1), IMAGE),
    "nn.ReplicationPad1d": layer(lambda: nn.ReplicationPad1d(2), SEQUENCE),
    "nn.ReplicationPad2d": layer(lambda: nn.ReplicationPad2d(1), IMAGE),
    "nn.ReplicationPad3d": layer(lambda: nn.ReplicationPad3d(1), VOLUME),
    "nn.ZeroPad2d": layer(lambda: nn.ZeroPad2d(1), IMAGE),
    "nn.ConstantPad1d": layer(lambda: nn.ConstantPad1d(1, 0.5), SEQUENCE),
    "nn.ConstantPad2d": layer(lambda: nn.ConstantPad2d(1, 0.5), IMAGE),
    "nn.ConstantPad3d": layer(lambda: nn.ConstantPad3d(1, 0.5), VOLUME),
    "nn.Upsample": layer(lambda: nn.Upsample(scale_factor=2), IMAGE),
    "nn.Upsample bicubic": layer(lambda: nn.Upsample(scale_factor=2, mode="bicubic"), IMAGE),
    "nn.functional.interpolate": ex(lambda a: F.interpolate(a, size=(4, 4)), IMAGE),
}

ACTIVATIONS: Dict[str, Example] = {
    "nn.ELU": layer(nn.ELU, A),
    "nn.CELU": layer(nn.CELU, A),
    "nn.GELU": layer(nn.GELU, A),
    "nn.Hardshrink": layer(nn.Hardshrink, A),
    "nn.LeakyReLU": layer(nn.LeakyReLU, A),
    "nn.LogSoftmax": layer(lambda: nn.LogSoftmax(1), A),
    "nn.Mish": layer(nn.Mish, A),
    "nn.ReLU": layer(nn.ReLU, A),
    "nn.SELU": layer(nn.SELU, A),
    "nn.SiLU": layer(nn.SiLU, A),
    "nn.Sigmoid": layer(nn.Sigmoid, A),
    "nn.Softmax": layer(lambda: nn.Softmax(1), A),
    "nn.Softplus": layer(nn.Softplus, A),
    "nn.Softsign": layer(nn.Softsign, A),
    "nn.Softshrink": layer(nn.Softshrink, A),
    "nn.Tanh": layer(nn.Tanh, A),
    "nn.PReLU": layer(lambda: nn.PReLU(4), A),
    "nn.Hardtanh": layer(nn.Hardtanh, A),
    "nn.functional.glu": ex(lambda a: F.glu(a, 1), A),
    "nn.Threshold": layer(lambda: nn.Threshold(0.5, 0.25), A),
}

LAYERS: Dict[str, Example] = {
    "nn.BatchNorm1d": layer(lambda: nn.BatchNorm1d(4), x(6, 4)),
    "nn.BatchNorm2d": layer(lambda: nn.BatchNorm2d(3), IMAGE),
    "nn.BatchNorm3d": layer(lambda: nn.BatchNorm3d(2), VOLUME),
    "nn.LayerNorm": layer(lambda: nn.LayerNorm(4), A),
    "nn.GroupNorm": layer(lambda: nn.GroupNorm(3, 6), x(2, 6, 4)),
    "nn.InstanceNorm1d": layer(lambda: nn.InstanceNorm1d(3, affine=True), SEQUENCE),
    "nn.InstanceNorm2d": layer(lambda: nn.InstanceNorm2d(3, affine=True), IMAGE),
    "nn.InstanceNorm3d": layer(lambda: nn.InstanceNorm3d(2, affine=True), VOLUME),
    "nn.utils.weight_norm": layer(lambda: nn.utils.weight_norm(nn.Linear(4, 3)), A),
    "nn.RNN": layer(lambda: nn.RNN(4, 5), x(3, 2, 4)),
    "nn.GRU": layer(lambda: nn.GRU(4, 5), x(3, 2, 4)),
    "nn.LSTM": layer(lambda: nn.LSTM(4, 5), x(3, 2, 4)),
    "nn.Identity": layer(nn.Identity, A),
    "nn.Linear": layer(lambda: nn.Linear(4, 3), A),
    "nn.Bilinear": layer(lambda: nn.Bilinear(4, 4, 3), A, B),
    "nn.Embedding": layer(lambda: nn.Embedding(4, 3), ints(5)),
    "nn.EmbeddingBag": layer(lambda: nn.EmbeddingBag(4, 3), ints(5, 2)),
    "nn.functional.one_hot": ex(lambda i: F.one_hot(i, 4), ints(5), **flat()),
}

TARGET = x(3, 4, low=0.1, high=0.9)
SIGNS = torch.tensor([1.0, -1.0, 1.0])
LOSSES: Dict[str, Example] = {
    "nn.L1Loss": layer(nn.L1Loss, A, B),
    "nn.MSELoss": layer(nn.MSELoss, A, B),
    "nn.CrossEntropyLoss": layer(nn.CrossEntropyLoss, A, ints(3)),
    "nn.NLLLoss": layer(nn.NLLLoss, A, ints(3)),
    "nn.BCELoss": layer(nn.BCELoss, x(3, 4, low=0.1, high=0.9), TARGET),
    "nn.KLDivLoss": layer(lambda: nn.KLDivLoss(reduction="batchmean"), A, TARGET),
    "nn.PoissonNLLLoss": layer(nn.PoissonNLLLoss, A, B),
    "nn.HingeEmbeddingLoss": layer(nn.HingeEmbeddingLoss, A, torch.sign(A)),
    "nn.BCEWithLogitsLoss": layer(nn.BCEWithLogitsLoss, A, TARGET),
    "nn.SmoothL1Loss": layer(nn.SmoothL1Loss, A, B),
    "nn.SoftMarginLoss": ex(lambda a, t: nn.SoftMarginLoss()(a, t.to(a.dtype)), A, torch.sign(A).int()),
    "nn.CosineEmbeddingLoss": layer(nn.CosineEmbeddingLoss, A, B, SIGNS),
    "nn.MarginRankingLoss": layer(nn.MarginRankingLoss, x(3), x(3, low=-1.0), SIGNS),
    "nn.TripletMarginLoss": layer(nn.TripletMarginLoss, A, B, x(3, 4, low=-1.0, high=1.0)),
    "nn.CTCLoss": Example(
        lambda: lambda a, targets: F.ctc_loss(a.float().log_softmax(2), targets, torch.full((2,), 6), torch.full((2,), 3)),
        lambda: (x(6, 2, 5), ints(2, 3, high=4) + 1),
    ),
}

EXAMPLES: Dict[str, Example] = {
    **CREATION, **INDEXING, **RANDOM, **POINTWISE, **REDUCTIONS, **COMPARISONS, **LINEAR_ALGEBRA, **CONVOLUTIONS, **ACTIVATIONS,
    **LAYERS, **LOSSES,
}  # fmt: skip

# Packages of their own, which the software IPU does not have.
ELSEWHERE = (
    "torch_scatter.scatter",
    "torch_scatter.composite.scatter_log_softmax",
    "torch_scatter.composite.scatter_softmax",
    "torch_scatter.composite.scatter_std",
    "torch_scatter.composite.scatter_logsumexp",
    "torch_spline_conv.spline_basis",
    "torch_spline_conv.spline_weighting",
)
