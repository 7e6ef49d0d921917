"""Ops that only say where elements lie; nothing runs on the device."""

from torch.fx import Node

from softipu.ops.registry import NOTHING, work_rule
from softipu.ops.work import Work


@work_rule(
    *"""
    view _unsafe_view reshape _reshape_alias t transpose permute expand expand_as unsqueeze squeeze select slice split unsafe_split
    unsafe_chunk split_with_sizes chunk unbind detach detach_ alias as_strided as_strided_ diagonal unfold view_as movedim swapaxes
    squeeze_ unsqueeze_ t_ transpose_ view_as_real view_as_complex real imag lift_fresh lift narrow flatten unflatten tensor_split
    mT numpy_T adjoint is_same_size sym_size sym_numel sym_stride _assert_async _assert_tensor_metadata _assert_scalar set_ resize_
    resize_as_ _conj conj resolve_conj resolve_neg _neg_view _local_scalar_dense
    """.split()
)
def view(node: Node) -> Work:
    """Nothing; what a later op makes of another order of elements is counted there."""
    return NOTHING
