"""Products by index: PyTorch 2.0 looks for zeros on the host before it takes their gradient; the same without the look."""

from typing import Any, Callable, Dict

import torch

_scatter_reduce, _index_reduce = torch.scatter_reduce, torch.index_reduce


class _Product(torch.autograd.Function):
    """Each element of the result is a product of factors; its gradient for one is the product of the others.

    A factor that is the only zero of its product is left out by putting 1 in its place, any other by division. With two zeros
    the products of the others are zero, as is what the division gives.
    """

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, include_self: bool) -> torch.Tensor:
        result = _scatter_reduce(input, dim, index, src, "prod", include_self=include_self)
        ctx.save_for_backward(input, index, src, result)
        ctx.dim, ctx.include_self = dim, include_self
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        input, index, src, result = ctx.saved_tensors
        dim, include_self, gradient = ctx.dim, ctx.include_self, gradients[0]
        own = input.masked_fill(input == 0, 1)
        of_input = gradient * _scatter_reduce(own, dim, index, src, "prod", include_self=include_self) / own
        if not include_self:
            of_input = of_input.scatter(dim, index, 0)

        is_zero = src == 0
        n_zeros = torch.zeros_like(input).scatter_add(dim, index, is_zero.to(input.dtype)).gather(dim, index)
        is_only_zero = is_zero & (n_zeros == 1)
        without = _scatter_reduce(input, dim, index, src.masked_fill(is_only_zero, 1), "prod", include_self=include_self)
        divided = (gradient * result).gather(dim, index) / src.masked_fill(is_zero, 1)
        of_src = torch.where(is_only_zero, (gradient * without).gather(dim, index), divided)
        return of_input, None, None, of_src, None


def scatter_reduce(
    input: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, reduce: str, *, include_self: bool = True
) -> torch.Tensor:
    """As torch.scatter_reduce."""
    if reduce != "prod" or not _needs_gradient(input, src):
        return _scatter_reduce(input, dim, index, src, reduce, include_self=include_self)
    rows = src[tuple(slice(n) for n in index.shape)]  # of a source that is larger, only what the index reaches
    result: torch.Tensor = _Product.apply(input, dim, index, rows, include_self)
    return result


def index_reduce(
    input: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, reduce: str, *, include_self: bool = True
) -> torch.Tensor:
    """As torch.index_reduce."""
    if reduce != "prod" or not _needs_gradient(input, source):
        return _index_reduce(input, dim, index, source, reduce, include_self=include_self)
    shape = [1] * source.dim()
    shape[dim] = -1
    result: torch.Tensor = _Product.apply(input, dim, index.long().view(shape).expand_as(source), source, include_self)
    return result


def _needs_gradient(*tensors: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


PRODUCT_SUBSTITUTES: Dict[Callable[..., Any], Callable[..., Any]] = {
    torch.scatter_reduce: scatter_reduce,
    torch.Tensor.scatter_reduce: scatter_reduce,
    torch.index_reduce: index_reduce,
    torch.Tensor.index_reduce: index_reduce,
}
