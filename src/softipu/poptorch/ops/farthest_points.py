"""Farthest point sampling: what torch_cluster calls fps."""

import math
import struct
from typing import List, Tuple

import torch
import torch.nn.functional as F

from softipu.errors import Error

# S segments, N points of the longest, K samples of the longest, D coordinates.


def fps(src: torch.Tensor, ptr: List[int], ratio: float = 0.5, random_start: bool = False) -> torch.Tensor:
    """Samples points of each segment one by one, always the one that is farthest from those taken already.

    Args:
        src: [points, coordinates] or [points]
        ptr: where segments begin, and where the last one ends: segment i is the points ptr[i] to ptr[i + 1] - 1.
        ratio: samples per point, above 0 and at most 1; their number is rounded up in each segment.
        random_start: begin at a random point of each segment instead of the first.

    Returns:
        [samples], integer: indices into ``src``, segment by segment, in the order they were taken.

    Raises:
        Error: arguments of other types, segments that are not in ``src``, a ratio out of range.
    """
    _check_arguments(src, ptr, ratio, random_start)
    lengths = [end - begin for begin, end in zip(ptr, ptr[1:])]
    begins = [begin for begin, length in zip(ptr, lengths) if length > 0]
    lengths = [length for length in lengths if length > 0]
    if not lengths:
        return torch.zeros(0, dtype=torch.int64, device=src.device)
    n_samples = [_rounded_up(length, ratio) for length in lengths]
    # Which points are taken has no gradient. All segments advance together, so the work is in few large operations.
    points_SND, is_point_SN = _padded(src.detach().reshape(src.shape[0], -1), begins, lengths)
    chosen = [_starts(lengths, points_SND.device, random_start=random_start)]
    distance_SN = torch.where(is_point_SN, float("inf"), -1.0).to(points_SND.dtype)
    for _ in range(max(n_samples) - 1):
        distance_SN = torch.minimum(distance_SN, _distances(points_SND, chosen[-1]))
        chosen.append(distance_SN.argmax(1))
    chosen_SK = torch.stack(chosen, 1)
    return torch.cat([chosen_SK[number, :n] + begin for number, (n, begin) in enumerate(zip(n_samples, begins))])


def _check_arguments(src: torch.Tensor, ptr: List[int], ratio: float, random_start: bool) -> None:
    if not isinstance(src, torch.Tensor):
        raise Error(f"`fps` must take a torch.tensor input. {type(src)} is not supported.")
    if not isinstance(ptr, list) or not all(isinstance(position, int) for position in ptr):
        raise Error(f"`ptr` must be a list of integers. `fps` was given {ptr!r}.")
    if len(ptr) < 2:
        raise Error(f"`ptr` must contain at least 2 elements. `fps` was given {ptr!r}.")
    if not isinstance(ratio, float):
        raise Error(f"`ratio` must be of float type. {type(ratio)} is not supported.")
    if not isinstance(random_start, bool):
        raise Error(f"`random_start` must be of bool type. {type(random_start)} is not supported.")
    if src.dim() == 0 or ptr != sorted(ptr) or ptr[0] < 0 or ptr[-1] > src.shape[0]:
        raise Error(
            f"`ptr` must rise from 0 or more to at most the number of points. `fps` was given {ptr} for `src` of {list(src.shape)}."
        )
    if not 0 < ratio <= 1:
        raise Error(f"`ratio` must be above 0 and at most 1. `fps` was given {ratio}.")


def _rounded_up(length: int, ratio: float) -> int:
    """ceil(length * ratio) in single precision, as the device computes it: 30 * 0.1 are 3 samples, not 4."""
    return math.ceil(_single(length * _single(ratio)))


def _single(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


def _padded(points: torch.Tensor, begins: List[int], lengths: List[int]) -> Tuple[torch.Tensor, torch.Tensor]:
    longest = max(lengths)
    points = points if points.dtype == torch.float64 else points.to(torch.float32)
    padded = [F.pad(points[begin : begin + n], (0, 0, 0, longest - n)) for begin, n in zip(begins, lengths)]
    is_point = [F.pad(torch.ones(n, dtype=torch.bool, device=points.device), (0, longest - n)) for n in lengths]
    return torch.stack(padded), torch.stack(is_point)


def _starts(lengths: List[int], device: torch.device, *, random_start: bool) -> torch.Tensor:
    if not random_start:
        return torch.zeros(len(lengths), dtype=torch.int64, device=device)
    starts = [(torch.rand(1, device=device) * n).to(torch.int64).clamp(max=n - 1) for n in lengths]
    return torch.cat(starts)


def _distances(points_SND: torch.Tensor, index_S: torch.Tensor) -> torch.Tensor:
    n_coordinates = points_SND.shape[2]
    chosen_S1D = points_SND.gather(1, index_S.view(-1, 1, 1).expand(-1, 1, n_coordinates))
    return (points_SND - chosen_S1D).square().sum(2)
