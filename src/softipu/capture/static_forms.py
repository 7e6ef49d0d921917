"""Functions that an IPU can compute but whose PyTorch form looks at values on the host first: the same without the look."""

from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Union

import torch
import torch.distributions
import torch.nn.functional as F

from softipu.capture._torch_private import eagerly
from softipu.capture.context import current
from softipu.capture.static_losses import LOSS_SUBSTITUTES
from softipu.capture.static_products import PRODUCT_SUBSTITUTES
from softipu.capture.static_quantiles import QUANTILE_SUBSTITUTES
from softipu.capture.static_statistics import STATISTICS_SUBSTITUTES

_one_hot, _bincount, _group_norm = F.one_hot, torch.bincount, F.group_norm


def one_hot(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """[...] of classes -> [..., num_classes] of 0 and 1; with a fixed number of classes no value is needed beforehand."""
    if num_classes <= 0:
        return _one_hot(tensor, num_classes)  # refused: its shape depends on data
    return (tensor.unsqueeze(-1) == torch.arange(num_classes, device=tensor.device)).to(torch.int64)


def bincount(input: torch.Tensor, weights: Optional[torch.Tensor] = None, minlength: int = 0) -> torch.Tensor:
    """[n] of integers -> [minlength], how often each comes, or the sum of its weights.

    With a fixed length nothing is known beforehand, so numbers from ``minlength`` on are not counted.
    """
    if minlength <= 0:
        return _bincount(input, weights, minlength)  # refused: its shape depends on data
    found = input.unsqueeze(-1) == torch.arange(minlength, device=input.device)
    return found.sum(0) if weights is None else (found * weights.unsqueeze(-1)).sum(0)


def repeat_interleave(
    input: torch.Tensor, repeats: Union[int, torch.Tensor, None] = None, dim: Optional[int] = None, *, output_size: Optional[int] = None
) -> torch.Tensor:
    """Each row ``repeats`` times: a number, numbers that are constants, or any that add up to ``output_size``."""
    if repeats is None:
        return torch.repeat_interleave(input, output_size=output_size)  # refused: its shape depends on data
    source, axis = (input.flatten(), 0) if dim is None else (input, dim % input.dim())
    if not isinstance(repeats, torch.Tensor):
        wide = source.unsqueeze(axis + 1)
        return wide.expand(*wide.shape[: axis + 1], int(repeats), *wide.shape[axis + 2 :]).flatten(axis, axis + 1)
    rows = repeats.expand(source.shape[axis])
    context = current()
    numbers = context.known.numbers_of(repeats) if context is not None else None
    if numbers is not None:
        return source.index_select(axis, _repeated_rows(numbers, source.shape[axis]))
    if output_size is None:
        return torch.repeat_interleave(input, repeats, dim)  # refused: its shape depends on data
    places = torch.arange(output_size, device=input.device)
    return source.index_select(axis, torch.searchsorted(rows.cumsum(0), places, right=True))


def _repeated_rows(repeats: Union[int, List[int]], n_rows: int) -> torch.Tensor:
    counts = repeats if isinstance(repeats, list) else [repeats]
    counts = counts * n_rows if len(counts) == 1 else counts
    return torch.tensor([row for row, count in enumerate(counts) for _ in range(count)], dtype=torch.int64)


def masked_select(input: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The elements that ``mask`` chooses, in one dimension; the mask is a constant."""
    context = current()
    value = context.known.of(mask) if context is not None else None
    if value is None:
        return torch.masked_select(input, mask)  # refused: its shape depends on data
    shape = torch.broadcast_shapes(input.shape, mask.shape)
    with eagerly():
        places = value.expand(shape).reshape(-1).nonzero().squeeze(1)
    return input.expand(shape).reshape(-1).index_select(0, places)


def random_(tensor: torch.Tensor, *limits: int, **named: Any) -> torch.Tensor:
    """Fills ``tensor`` with integers below a limit, or from one up to another."""
    low = limits[0] if len(limits) == 2 else named.get("from", 0)
    high = limits[-1] if limits else named.get("to")
    if high is None:  # all integers that the type holds exactly
        high = 1 << 24 if tensor.dtype == torch.float32 else 1 << 11 if tensor.dtype == torch.float16 else torch.iinfo(torch.int32).max
    return tensor.copy_(torch.randint(int(low), int(high), tensor.shape, device=tensor.device))


def rrelu(input: torch.Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False) -> torch.Tensor:
    """Leaky ReLU with slopes drawn between two limits, or their mean outside training; PyTorch 2.0 has no kernel of it for half."""
    if not training:
        return F.leaky_relu(input, (lower + upper) / 2, inplace)
    slopes = torch.empty_like(input).uniform_(lower, upper)
    result = torch.where(input <= 0, input * slopes, input)
    return input.copy_(result) if inplace else result


def _written_to(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A running sum or product whose ``out`` may have another type; PyTorch 2.0 finds no shape for it."""

    def running(
        input: torch.Tensor, *where: Any, dtype: Optional[torch.dtype] = None, out: Optional[torch.Tensor] = None, **named: Any
    ) -> Any:
        if out is None or out.shape != input.shape:
            return function(input, *where, dtype=dtype, out=out, **named)
        return out.copy_(function(input, *where, dtype=dtype or out.dtype, **named))

    return running


def group_norm(
    input: torch.Tensor, num_groups: int, weight: Optional[torch.Tensor] = None, bias: Optional[torch.Tensor] = None, eps: float = 1e-5
) -> torch.Tensor:
    """[N, C, ...], normalised over groups of neighbouring channels, or over channels c, c + num_groups, c + 2 num_groups, ..."""
    context = current()
    if context is None or not context.strided_groups or input.shape[1] % num_groups:
        return _group_norm(input, num_groups, weight, bias, eps)
    each = input.shape[1] // num_groups

    def exchanged(values: torch.Tensor, channels: int, first: int) -> torch.Tensor:
        return values.unflatten(channels, (first, -1)).transpose(channels, channels + 1).flatten(channels, channels + 1)

    scale, shift = (None if t is None else exchanged(t, 0, each) for t in (weight, bias))
    return exchanged(_group_norm(exchanged(input, 1, each), num_groups, scale, shift, eps), 1, num_groups)


SUBSTITUTES: Dict[Callable[..., Any], Callable[..., Any]] = {
    F.one_hot: one_hot,
    torch.bincount: bincount,
    torch.Tensor.bincount: bincount,
    torch.repeat_interleave: repeat_interleave,
    torch.Tensor.repeat_interleave: repeat_interleave,
    torch.masked_select: masked_select,
    torch.Tensor.masked_select: masked_select,
    torch.Tensor.random_: random_,
    F.rrelu: rrelu,
    F.group_norm: group_norm,
    torch.cumsum: _written_to(torch.cumsum),
    torch.cumprod: _written_to(torch.cumprod),
    torch.rrelu: rrelu,
    **LOSS_SUBSTITUTES,
    **STATISTICS_SUBSTITUTES,
    **QUANTILE_SUBSTITUTES,
    **PRODUCT_SUBSTITUTES,
}


@contextmanager
def without_value_checks() -> Iterator[None]:
    """torch.distributions look at the values of their arguments to check them; not in here."""
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)
