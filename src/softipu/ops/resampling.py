"""Interpolation of images and signals, and its gradient."""

from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import bits_of, inputs_of, n_bytes, result, traffic
from softipu.ops.work import VectorOp as V
from softipu.ops.work import Work

_FAMILY = "resampling"
_NEIGHBOURS = {"nearest": 1, "linear": 2, "bilinear": 4, "trilinear": 8, "bicubic": 16}
_NAMES = (
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
    "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "grid_sampler_2d", "grid_sampler_3d",
)  # fmt: skip


@work_rule(*_NAMES, *(f"{name}_backward" for name in _NAMES))
def resample(node: Node) -> Work:
    """Every element of the finer grid reads or adds to its neighbours on the coarser one."""
    name = node.target._schema.name  # type: ignore[union-attr]
    neighbours = next((n for mode, n in reversed(list(_NEIGHBOURS.items())) if mode in name), 4)
    elements = float(max(t.numel() for t in [*inputs_of(node), result(node)]) * neighbours)
    out = result(node)
    read, written = traffic(node)
    return Work(_FAMILY, (), ((V.ADD, elements),), bits_of(out), read, written, n_bytes(out), n_supersteps=2)


@work_rule("pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "im2col", "col2im")
def shuffle(node: Node) -> Work:
    """Every element in another place."""
    out = result(node)
    read, written = traffic(node)
    return Work(_FAMILY, (), ((V.COPY, float(out.numel())),), bits_of(out), read, written, n_bytes(out), n_supersteps=1)
