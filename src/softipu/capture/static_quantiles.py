"""Quantiles, for which older versions of PyTorch look whether the asked ones lie between 0 and 1: the same without the look."""

from typing import Any, Callable, Dict, Optional, Union

import torch

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile(
    input: torch.Tensor, q: Union[float, torch.Tensor], dim: Optional[int] = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> torch.Tensor:
    """[...] -> [Q, ...] (without Q for a number): what fractions ``q`` of the values of a dimension, or of all, lie below.

    A row with a NaN gives NaN. Fractions outside 0 to 1 are not looked for.

    Raises:
        RuntimeError: an unknown interpolation.
    """
    return _quantile(input, q, dim, keepdim, interpolation, ignores_nan=False)


def nanquantile(
    input: torch.Tensor, q: Union[float, torch.Tensor], dim: Optional[int] = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> torch.Tensor:
    """As ``quantile``, of the values that are not NaN."""
    return _quantile(input, q, dim, keepdim, interpolation, ignores_nan=True)


def _quantile(
    input: torch.Tensor, q: Union[float, torch.Tensor], dim: Optional[int], keepdim: bool, interpolation: str, *, ignores_nan: bool
) -> torch.Tensor:
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(f"quantile() interpolation must be one of {', '.join(INTERPOLATIONS)}, but got {interpolation}")
    rows = input.flatten() if dim is None else input.movedim(dim, -1) if input.dim() else input.reshape(1)
    sorted_rows = rows.sort(-1).values  # NaN last
    is_nan = sorted_rows.isnan()
    fractions = torch.as_tensor(q, dtype=input.dtype)
    last = (sorted_rows.shape[-1] - 1 - is_nan.sum(-1, keepdim=True)).to(input.dtype) if ignores_nan else sorted_rows.shape[-1] - 1
    ranks = (fractions.reshape(-1) * last).expand(*rows.shape[:-1], fractions.numel())
    if ignores_nan:
        ranks = ranks.clamp(min=0)  # a row of NaN only
    else:
        ranks = torch.where(is_nan.any(-1, keepdim=True), torch.full_like(ranks, float(sorted_rows.shape[-1] - 1)), ranks)
    if interpolation in ("lower", "higher", "nearest"):
        rounded = {"lower": torch.floor, "higher": torch.ceil, "nearest": torch.round}[interpolation](ranks)
        result = sorted_rows.gather(-1, rounded.long())
    else:
        below, above = ranks.floor(), ranks.ceil()
        weights = ranks - below if interpolation == "linear" else torch.full_like(ranks, 0.5)
        result = sorted_rows.gather(-1, below.long()).lerp(sorted_rows.gather(-1, above.long()), weights)
    if keepdim:
        places = result.movedim(-1, 0).unsqueeze(-1)
        result = places.reshape(-1, *[1] * input.dim()) if dim is None else places.movedim(-1, dim if dim < 0 else dim + 1)
    else:
        result = result.movedim(-1, 0)
    return result if fractions.dim() else result[0]


QUANTILE_SUBSTITUTES: Dict[Callable[..., Any], Callable[..., Any]] = {
    torch.quantile: quantile,
    torch.Tensor.quantile: quantile,
    torch.nanquantile: nanquantile,
    torch.Tensor.nanquantile: nanquantile,
}
