"""Tensors made on the device."""

import torch

from tests.softipu.poptorch.operations.example import A, Table, ex

CREATION: Table = {
    "arange": ex(lambda a: torch.arange(5, device=a.device) + a[0, 0], A),
    "tensor.fill": ex(lambda a: a.clone().fill_(2.0) + a, A),
    "full": ex(lambda a: torch.full((3, 4), 2.5, dtype=a.dtype) * a, A),
    "full_like": ex(lambda a: torch.full_like(a, 2.5) * a, A),
    "Tensor.new_ones": ex(lambda a: a.new_ones(3, 4) * a, A),
    "Tensor.new_zeros": ex(lambda a: a.new_zeros(3, 4) + a, A),
    "ones": ex(lambda a: torch.ones(3, 4, dtype=a.dtype) * a, A),
    "ones_like": ex(lambda a: torch.ones_like(a) * a, A),
    "zeros": ex(lambda a: torch.zeros(3, 4, dtype=a.dtype) + a, A),
    "zeros_like": ex(lambda a: torch.zeros_like(a) + a, A),
}
