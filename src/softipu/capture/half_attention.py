"""Attention in half precision stays in half: PyTorch's own kernel for the CPU computes it in float32, which an IPU does not."""

import contextlib
from typing import Iterator

import torch


@contextlib.contextmanager
def attention_as_given() -> Iterator[None]:
    """``scaled_dot_product_attention`` is written down with the type of its inputs. Before torch 2.5 it always was."""
    cuda = torch.backends.cuda
    allow = getattr(cuda, "allow_fp16_bf16_reduction_math_sdp", None)
    if allow is None:
        yield
        return
    before = cuda.fp16_bf16_reduction_math_sdp_allowed()
    allow(True)
    try:
        yield
    finally:
        allow(before)
