"""Tensors as text, in the layout that an IPU's program prints them in.

title: {
 {1.50 2.00}
 {3.25 4.00}
}
"""

import math
from dataclasses import dataclass
from typing import Any, Callable, List, Sequence

import torch

FLOAT_FORMATS = ("auto", "fixed", "scientific", "none")


@dataclass(frozen=True)
class TensorTextFormat:
    """How a tensor is printed.

    Attributes:
        summarise_threshold: tensors with more elements are shortened to their edges; 0: never.
        edge_items: elements that are left at each end of a dimension then.
        max_line_width: longer lines go on in the next; 0: never.
        digits: of a number, before and after the point, without exponent. 0: numbers are not aligned.
        float_format: auto, fixed, scientific, or none (each number for itself).
        separator, open_bracket, close_bracket: between and around the elements of a dimension.
    """

    summarise_threshold: int = 1000
    edge_items: int = 3
    max_line_width: int = 80
    digits: int = 4
    float_format: str = "auto"
    separator: str = ", "
    open_bracket: str = "("
    close_bracket: str = ")"


def tensor_text(tensor: torch.Tensor, form: TensorTextFormat) -> str:
    """``tensor`` of any shape as text, without a line break at the end."""
    shortened = 0 < form.summarise_threshold < tensor.numel()
    shown = _edges(tensor, form.edge_items) if shortened else tensor
    number = _number_format(shown.flatten().tolist(), form)
    return "\n".join(_lines(tensor, 0, form, number, shortened))


def _edges(tensor: torch.Tensor, edge_items: int) -> torch.Tensor:
    for dim, size in enumerate(tensor.shape):
        if size > 2 * edge_items:
            kept = [*range(edge_items), *range(size - edge_items, size)]
            tensor = tensor.index_select(dim, torch.tensor(kept))
    return tensor


def _lines(tensor: torch.Tensor, depth: int, form: TensorTextFormat, number: Callable[[Any], str], shortened: bool) -> List[str]:
    if tensor.dim() == 0:
        return [number(tensor.item())]
    indent = " " * depth
    picked = _positions(tensor.shape[0], form.edge_items, shortened)
    if tensor.dim() == 1:
        words = ["..." if i is None else number(tensor[i].item()) for i in picked]
        return _row(words, indent, form)
    lines = [indent + form.open_bracket]
    for i in picked:
        lines += [f"{indent} ..."] if i is None else _lines(tensor[i], depth + 1, form, number, shortened)
    return [*lines, indent + form.close_bracket]


def _positions(size: int, edge_items: int, shortened: bool) -> Sequence[Any]:
    if not shortened or size <= 2 * edge_items:
        return range(size)
    return [*range(edge_items), None, *range(size - edge_items, size)]


def _row(words: List[str], indent: str, form: TensorTextFormat) -> List[str]:
    lines: List[str] = []
    line = indent + form.open_bracket
    begun = False
    for i, word in enumerate(words):
        last = i == len(words) - 1
        piece = word + (form.close_bracket if last else form.separator)
        if begun and form.max_line_width and len(line + piece.rstrip()) > form.max_line_width:
            lines.append(line.rstrip())
            line = indent + "  "
        line += piece
        begun = True
    return [*lines, line if words else line + form.close_bracket]


def _number_format(values: Sequence[Any], form: TensorTextFormat) -> Callable[[Any], str]:
    """A function from one of ``values`` to its text, as wide as the widest of them."""
    if not values or not isinstance(values[0], float):
        one: Callable[[Any], str] = lambda v: str(int(v))  # noqa: E731 - chosen by the values
    elif form.digits == 0 or form.float_format == "none":
        significant = form.digits or 6
        return lambda v: f"{v:.{significant}g}"
    else:
        finite = [abs(v) for v in values if math.isfinite(v)]
        one = _float_format(finite, form)
    if form.digits == 0:
        return one
    width = max((len(one(v)) for v in values), default=0)
    return lambda v: one(v).rjust(width)


def _float_format(magnitudes: Sequence[float], form: TensorTextFormat) -> Callable[[float], str]:
    largest = max(magnitudes, default=0.0)
    smallest = min((m for m in magnitudes if m > 0), default=0.0)
    n_before_point = 1 if largest < 1 else int(math.floor(math.log10(largest))) + 1
    decimals = max(form.digits - n_before_point, 0)
    # Fixed point is readable as long as neither the largest number has too many digits nor the smallest shows none.
    fits = n_before_point <= form.digits and (smallest == 0.0 or smallest >= 0.5 * 10.0**-decimals)
    if form.float_format == "fixed" or (form.float_format == "auto" and fits):
        return lambda v: f"{v:.{decimals}f}"
    return lambda v: f"{v:.{max(form.digits - 1, 0)}e}"
