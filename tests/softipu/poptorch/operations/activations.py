"""Activations."""

import torch.nn.functional as F
from torch import nn

from tests.softipu.poptorch.operations.example import BATCH, SQUARE, A, Table, ex, layer

ACTIVATIONS: Table = {
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

ACTIVATION_VARIANTS: Table = {
    "nn.ReLU6": layer(nn.ReLU6, A),
    "nn.LogSigmoid": layer(nn.LogSigmoid, A),
    "nn.Hardsigmoid": layer(nn.Hardsigmoid, A),
    "nn.Hardswish": layer(nn.Hardswish, A),
    "nn.Tanhshrink": layer(nn.Tanhshrink, A),
    "nn.Softmin": layer(lambda: nn.Softmin(0), A),
    "nn.Softmax2d": layer(nn.Softmax2d, BATCH),
    "nn.Softmax, of the first dimension": layer(lambda: nn.Softmax(-3), BATCH),
    "nn.LogSoftmax, of the middle one": layer(lambda: nn.LogSoftmax(1), BATCH),
    "nn.LogSoftmax, of a wide range": ex(lambda a: (a * 400).log_softmax(1), A),
    "nn.GELU, by tanh": layer(lambda: nn.GELU("tanh"), A),
    "nn.PReLU, one slope": layer(nn.PReLU, BATCH),
    "nn.ELU, steeper": layer(lambda: nn.ELU(1.5), A),
    "nn.CELU, steeper": layer(lambda: nn.CELU(1.5), A),
    "nn.Softplus, sharper": layer(lambda: nn.Softplus(2.0, 1.5), A),
    "nn.Hardtanh, narrower": layer(lambda: nn.Hardtanh(-0.5, 1.25), A),
    "nn.functional.glu, of the middle dimension": ex(lambda a: F.glu(a, -2), SQUARE),
    "nn.RReLU, outside training": layer(lambda: nn.RReLU().eval(), A),
    **{
        f"nn.functional.{name}, in place": ex(lambda a, function=function: function(a * 1.5, inplace=True), A)
        for name, function in {
            "relu": F.relu, "elu": F.elu, "leaky_relu": F.leaky_relu, "hardtanh": F.hardtanh, "silu": F.silu, "selu": F.selu,
            "hardswish": F.hardswish, "mish": F.mish,
        }.items()
    },
}  # fmt: skip
