"""Covariances and combinations, which PyTorch computes with a look at values or by masks: the same with fixed shapes."""

import itertools
from typing import Any, Callable, Dict, Optional

import torch


def cov(
    input: torch.Tensor, *, correction: int = 1, fweights: Optional[torch.Tensor] = None, aweights: Optional[torch.Tensor] = None
) -> torch.Tensor:
    """[V, N] of V variables observed N times (or [N] of one) -> [V, V] (or a scalar): their covariances.

    Observations count ``fweights`` times and have importance ``aweights``, both [N]. Weights are not checked for negative values.
    """
    x_VN = input.reshape(1, -1) if input.dim() < 2 else input
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    if weights is None:
        total: Any = x_VN.shape[1]
        weighted = x_VN
    else:
        total, weighted = weights.sum(), x_VN * weights
    centred = x_VN - (weighted.sum(1) / total).unsqueeze(1)
    if aweights is not None and weights is not None and correction:
        divisor: Any = total - correction * (weights * aweights).sum() / total
    else:
        divisor = total - correction
    divisor = divisor.clamp(min=0) if isinstance(divisor, torch.Tensor) else max(divisor, 0)
    products = torch.mm(centred, (centred if weights is None else centred * weights).t().conj())
    return (products / divisor).squeeze()


def corrcoef(input: torch.Tensor) -> torch.Tensor:
    """[V, N] -> [V, V] of Pearson's correlations (a scalar for one variable)."""
    covariances = cov(input)
    if covariances.dim() == 0:
        return covariances / covariances
    deviations = covariances.diagonal().sqrt()
    correlations = covariances / deviations.unsqueeze(1) / deviations.unsqueeze(0)
    return correlations if correlations.is_complex() else correlations.clip(-1, 1)


def combinations(input: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
    """[N] -> [number of ways to take r of N, r], in the order of itertools."""
    if input.dim() != 1:
        raise RuntimeError(f"combinations takes a tensor of one dimension, not one of shape {list(input.shape)}.")
    ways = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(ways(range(input.shape[0]), r))
    places = torch.tensor([place for row in rows for place in row], dtype=torch.int64)
    return input.index_select(0, places).reshape(len(rows), r)


STATISTICS_SUBSTITUTES: Dict[Callable[..., Any], Callable[..., Any]] = {
    torch.cov: cov,
    torch.Tensor.cov: cov,
    torch.corrcoef: corrcoef,
    torch.Tensor.corrcoef: corrcoef,
    torch.combinations: combinations,
}
