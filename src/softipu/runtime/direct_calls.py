"""The cheapest Python callable for an op: PyTorch's own binding where it means the same, else the C++ op itself."""

from typing import Any, Callable, Sequence

import torch
from torch.fx import Node

from softipu.capture._torch_private import native_function, raw_op
from softipu.graph.effects import overload_of

aten = torch.ops.aten

# ATen overloads whose Python function of the same name takes the same arguments in the same order.
_FUNCTIONS = frozenset(
    """
    aten.mm.default aten.bmm.default aten.addmm.default aten.matmul.default aten.add.Tensor aten.sub.Tensor aten.mul.Tensor aten.div.Tensor
    aten.t.default aten.transpose.int aten.permute.default aten.relu.default aten.relu_.default aten.tanh.default aten.sigmoid.default
    aten.exp.default aten.log.default aten.sqrt.default aten.rsqrt.default aten.neg.default aten.abs.default aten.native_layer_norm.default
    aten.native_batch_norm.default aten.embedding.default aten.cat.default aten.stack.default aten.unsqueeze.default aten.select.int
    aten.zeros_like.default aten.ones_like.default aten.empty_like.default aten.clone.default aten.sum.default aten.mean.default
    aten.convolution.default aten.max_pool2d_with_indices.default aten.where.self aten.maximum.default aten.minimum.default aten.erf.default
    aten.sin.default aten.cos.default aten.reciprocal.default aten.clamp.default aten.threshold.default aten.addcmul.default
    """.split()
)
# ... and those whose tensor method does.
_METHODS = frozenset(
    """
    aten.view.default aten.expand.default aten.reshape.default aten.add_.Tensor aten.mul_.Tensor aten.copy_.default aten.zero_.default
    """.split()
)


def view_or_copy(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """A view, or a copy where the tensor lies in memory otherwise than the capture took it to do (as some backward kernels leave it)."""
    try:
        return tensor.view(shape)
    except RuntimeError:
        return tensor.reshape(shape)


def gelu_backward(gradient: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
    """The op on a gradient in order: the kernel of torch 2.0 reads beyond the memory of one that is not."""
    return aten.gelu_backward.default(gradient.contiguous(), *rest, **named)


def direct_call(node: Node, *, is_written: bool = True) -> Callable[..., Any]:
    """What to call for ``node``; ``is_written``: whether some op writes into the memory of its result."""
    op = overload_of(node)
    if op is None:
        return node.target  # type: ignore[return-value]
    name = str(op)
    if name == "aten.view.default" and not is_written:
        return view_or_copy
    if name == "aten.gelu_backward.default" and not _lies_in_order(node.args[0]):
        return gelu_backward
    base = op._schema.name.split("::")[-1]
    function, method = native_function(base)
    if name in _FUNCTIONS and function is not None:
        return function
    if name in _METHODS and method is not None:
        return method
    return raw_op(op)


def _lies_in_order(value: Any) -> bool:
    fake = value.meta.get("val") if isinstance(value, Node) else None
    return isinstance(fake, torch.Tensor) and fake.is_contiguous()
