"""For every point of one set the nearest point of another, within batches: what torch_cluster calls nearest."""

from typing import Any, List, Optional, Union

import torch

from softipu.errors import Error

Batch = Optional[Union[List[int], torch.Tensor]]


def nearest(x: torch.Tensor, y: torch.Tensor, batch_x: Batch = None, batch_y: Batch = None) -> torch.Tensor:
    """Index of the nearest point of ``y`` for each point of ``x``; the first one when several are equally near.

    Args:
        x: [N, D] or [N]
        y: [M, D] or [M]
        batch_x: [N], sorted: which batch a point of ``x`` belongs to; None: all the same one.
        batch_y: [M], sorted, likewise for ``y``. Lists must have the same batches; values of tensors are not looked at.

    Returns:
        [N], integer

    Raises:
        Error: arguments of other types, or shapes or batches that do not fit together.
    """
    points_x, points_y = _points("x", x), _points("y", y)
    if points_x.shape[1] != points_y.shape[1]:
        raise Error(
            f"`nearest` was given points of {points_x.shape[1]} coordinates in `x` and of {points_y.shape[1]} in `y`; "
            "both need the same number."
        )
    distances = torch.cdist(points_x, points_y, compute_mode="donot_use_mm_for_euclid_dist")
    for name, batch in (("batch_x", batch_x), ("batch_y", batch_y)):
        if batch is not None and not isinstance(batch, (list, torch.Tensor)):
            raise Error(f"`{name}` of `nearest` must be a torch.Tensor or a list while it is of type {type(batch)}.")
    if _is_given(batch_x) or _is_given(batch_y):
        if isinstance(batch_x, list) and isinstance(batch_y, list) and batch_x and batch_y and set(batch_x) != set(batch_y):
            raise Error(
                f"Some batch indices of `nearest` occur in one of 'batch_x' and 'batch_y' only: {sorted(set(batch_x) ^ set(batch_y))}. "
                "Every batch needs points of both."
            )
        of_x, of_y = _batch("batch_x", batch_x, points_x), _batch("batch_y", batch_y, points_y)
        distances = distances.masked_fill(of_x.unsqueeze(1) != of_y.unsqueeze(0), float("inf"))
    return distances.argmin(1)


def _points(name: str, tensor: Any) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise Error(f"`nearest` must take a torch.tensor `{name}` input. {type(tensor)} is not supported.")
    if tensor.dim() not in (1, 2):
        raise Error(f"`nearest` takes [points, coordinates] or [points], given `{name}` of shape {list(tensor.shape)}.")
    # Which point is nearest has no gradient; half precision would make many equally near.
    points = tensor.detach().to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)
    return points if points.dim() == 2 else points.unsqueeze(1)


def _is_given(batch: Batch) -> bool:
    return batch is not None and len(batch) > 0


def _batch(name: str, batch: Batch, points: torch.Tensor) -> torch.Tensor:
    if batch is None or not _is_given(batch):
        return torch.zeros(points.shape[0], dtype=torch.int32, device=points.device)
    if isinstance(batch, list):
        if batch != sorted(batch):
            raise Error(f"'{name}' of `nearest` is not sorted: {batch}.")
        batch = torch.tensor(batch, dtype=torch.int32, device=points.device)
    if list(batch.shape) != [points.shape[0]]:
        raise Error(f"'{name}' of `nearest` has the shape {list(batch.shape)}, but there are {points.shape[0]} points.")
    return batch
