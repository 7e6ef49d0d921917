"""Matrix products that hardware computes in parts, one after the other, to need less memory at a time."""

import torch

from softipu.errors import Error
from softipu.poptorch.enums import MatMulSerializationMode


def serializedMatMul(
    lhs: torch.Tensor, rhs: torch.Tensor, mode: MatMulSerializationMode, factor: int = 0, keep_precision: bool = False
) -> torch.Tensor:
    """``lhs @ rhs``.

    Args:
        lhs: [..., M, N]
        rhs: [..., N, P]
        mode: which dimension is split: M (InputChannels), N (ReducingDim), P (OutputChannels), or none (Disabled).
        factor: number of parts.
        keep_precision: on hardware, add half-precision parts up in single precision.

    Raises:
        AssertionError: arguments of other types.
        Error: the factor does not divide the dimension.
    """
    assert isinstance(keep_precision, bool), f"keep_precision must be a bool, given {keep_precision!r}."
    assert isinstance(factor, int) and not isinstance(factor, bool), f"factor must be an int, given {factor!r}."
    assert isinstance(mode, MatMulSerializationMode), f"mode must be a poptorch.MatMulSerializationMode, given {mode!r}."
    if mode != MatMulSerializationMode.Disabled and factor != 0 and lhs.dim() >= 2 and rhs.dim() >= 2:
        length = {
            MatMulSerializationMode.InputChannels: lhs.shape[-2],
            MatMulSerializationMode.ReducingDim: lhs.shape[-1],
            MatMulSerializationMode.OutputChannels: rhs.shape[-1],
        }[mode]
        if factor < 0 or length % factor:
            raise Error(
                f"serializedMatMul cannot split the dimension {mode.name} of length {length} into {factor} parts of equal length. "
                "Use a factor that divides it."
            )
    return torch.matmul(lhs, rhs)
