"""Operations that PopTorch lists as supported on an IPU, and the user's lines that call others.

The list is made of the ATen ops behind what PopTorch's user guide names ("IPU supported operations"), of other spellings of the
same (in place, with another overload, the fused forms of newer versions of PyTorch), and of views.
"""

from dataclasses import dataclass
from typing import List, Optional, Set, Tuple

from torch.fx import GraphModule, Node

from softipu.capture._torch_private import graph_being_traced
from softipu.capture.refused_ops import refused
from softipu.capture.user_code import Line, calling_line
from softipu.graph.effects import overload_of
from softipu.graph.python_calls import with_inner_graphs

LISTED = frozenset(
    """
    abs acos acosh add addcdiv addcmul addmm addmv addbmm baddbmm all amax amin aminmax any arange argmax argmin argsort asin asinh atan
    atanh avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d bernoulli bilinear
    binary_cross_entropy binary_cross_entropy_with_logits bincount bitwise_and bitwise_not bitwise_or bitwise_xor bmm bucketize cat
    _cdist_forward ceil celu clamp clamp_max clamp_min col2im constant_pad_nd conv1d conv2d conv3d convolution copy copysign cos cosh
    count_nonzero cross _ctc_loss cumprod cumsum div dot dropout elu _embedding_bag embedding embedding_bag eq erf exp expm1 exponential
    fill floor floor_divide fmod frac full full_like gather ge gelu glu gt hardshrink hardsigmoid hardswish hardtanh im2col index
    index_add index_fill index_put index_reduce index_select isfinite isinf isnan l1_loss le leaky_relu lerp linalg_cross
    linalg_vector_norm linear linspace log log10 log1p log2 log_sigmoid_forward log_softmax _log_softmax logical_and logical_not
    logical_or logical_xor logsumexp lt masked_fill matmul max max_pool2d_with_indices max_pool3d_with_indices maximum mean median min
    minimum mish mkldnn_rnn_layer mm mse_loss mul mv native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training
    _batch_norm_with_update native_dropout native_group_norm native_layer_norm ne neg nll_loss_forward nll_loss2d_forward norm normal
    one_hot ones ones_like outer pixel_shuffle pixel_unshuffle pow prelu _prelu_kernel prod rand rand_like randint randint_like randn
    randn_like randperm reciprocal reflection_pad1d reflection_pad2d reflection_pad3d relu remainder repeat replication_pad1d
    replication_pad2d replication_pad3d roll round rrelu rrelu_with_noise rsqrt rsub scalar_tensor
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_attention_math scatter scatter_add scatter_reduce select_scatter
    selu sgn sigmoid sign silu sin sinh slice_scatter smooth_l1_loss soft_margin_loss softmax _softmax _safe_softmax softplus softshrink
    sort special_xlog1py sqrt square stack std std_mean sub sum take tan tanh threshold topk tril _trilinear triu trunc uniform
    upsample_bicubic2d upsample_nearest1d upsample_nearest2d upsample_nearest3d var var_mean _weight_norm _weight_norm_interface where
    xlogy zero zeros zeros_like
    alias as_strided chunk clone contiguous copy_ detach diagonal empty empty_like empty_strided expand expand_as flatten lift_fresh
    lift_fresh_copy movedim narrow new_empty new_empty_strided new_full new_ones new_zeros permute reshape _reshape_alias select slice
    split split_with_sizes squeeze t _to_copy to transpose unbind unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze
    _unsafe_view view view_as
    """.split()
)

_KEY = "unlisted_at"
# Checks that follow an op which is named itself.
_CHECKS = ("_linalg_check_errors", "_assert_async")


@dataclass(frozen=True)
class UnlistedOp:
    """An op that PopTorch does not list.

    Attributes:
        name: of the ATen op.
        line: the user's line that called it first, if there is one.
    """

    name: str
    line: Optional[Line]


def is_listed(name: str) -> bool:
    """Whether PopTorch lists an ATen op, or the form of it that does not work in place."""
    return name in LISTED or name.rstrip("_") in LISTED


class UnlistedOpWatch:
    """Notes, after each call of the user's, from which line an unlisted op in the running capture comes."""

    def __init__(self) -> None:
        self._last: Optional[Node] = None

    def look(self) -> None:
        """Looks at the nodes that are new since the last look.

        Raises:
            CaptureError: one is an op that PopTorch refuses.
        """
        graph = graph_being_traced()
        if graph is None:
            return
        newest: Optional[Node] = None
        line: Optional[Line] = None
        for node in reversed(graph.nodes):
            if newest is None:
                newest = node
            if node is self._last or _KEY in node.meta:
                break
            name = _foreign_name(node)
            if name is not None:
                line = line or calling_line()
                node.meta[_KEY] = line
            error = refused(node, None)
            if error is not None:
                raise refused(node, calling_line()) or error
        self._last = newest


def unlisted_ops(graph_module: GraphModule) -> List[UnlistedOp]:
    """The ops of a captured forward pass that PopTorch does not list, each with its first line, in order."""
    found: List[UnlistedOp] = []
    seen: Set[Tuple[str, Optional[Line]]] = set()
    for inner in with_inner_graphs(graph_module):
        for node in inner.graph.nodes:
            name = _foreign_name(node)
            if name is not None and _KEY in node.meta and (name, node.meta[_KEY]) not in seen:
                seen.add((name, node.meta[_KEY]))
                found.append(UnlistedOp(name, node.meta[_KEY]))
    return found


def _foreign_name(node: Node) -> Optional[str]:
    op = overload_of(node)
    if op is None or not op._schema.name.startswith("aten::"):
        return None
    name: str = op._schema.name[len("aten::") :]
    return None if is_listed(name) or name in _CHECKS else name
