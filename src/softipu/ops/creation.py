"""New tensors of known values. A constant is made when the program is built, so only zeroing on the device counts."""

from torch.fx import Node

from softipu.ops.registry import NOTHING, work_rule
from softipu.ops.tensors import bits_of, n_bytes, result
from softipu.ops.work import VectorOp as V
from softipu.ops.work import Work

_FAMILY = "creation"


@work_rule(
    *"""
    empty empty_like new_empty empty_strided new_empty_strided arange scalar_tensor linspace logspace eye tril_indices triu_indices
    hann_window full ones zeros new_zeros new_ones new_full ones_like full_like empty_permuted range
    """.split()
)
def constant(node: Node) -> Work:
    """Nothing runs."""
    return NOTHING


@work_rule("zeros_like", "zero_", "fill_", "fill")
def filled(node: Node) -> Work:
    """Every element written."""
    out = result(node)
    return Work(_FAMILY, (), ((V.COPY, float(out.numel())),), bits_of(out), 0.0, n_bytes(out), n_supersteps=1)
