"""Types that an IPU takes and CPU torch does not: half next to float in matrix products, int32 where torch wants int64.

Half activations with float weights give half, float activations with half weights give float: the second operand follows the first.
"""

from typing import Any, Callable, Dict, FrozenSet, List, Tuple

import torch
import torch.nn.functional as F

Arguments = Tuple[Any, ...]

# The tensor arguments after the first take the first one's type.
_FOLLOWS_FIRST: FrozenSet[Callable[..., Any]] = frozenset(
    [
        F.linear, F.bilinear, torch.matmul, torch.mm, torch.bmm, torch.mv, torch.Tensor.matmul, torch.Tensor.mm, torch.Tensor.bmm,
        torch.Tensor.__matmul__, torch.conv1d, torch.conv2d, torch.conv3d, F.conv1d, F.conv2d, F.conv3d, F.conv_transpose1d,
        F.conv_transpose2d, F.conv_transpose3d, torch.addmm, torch.baddbmm, torch.addbmm, torch.addmv,
        F.layer_norm, F.group_norm, F.instance_norm, F.batch_norm, F.prelu, F.scaled_dot_product_attention,
    ]
)  # fmt: skip
# ... except these, which a step writes in place.
_KEPT: Dict[Callable[..., Any], Tuple[int, ...]] = {F.batch_norm: (1, 2), F.instance_norm: (1, 2)}
_KEPT_NAMES = ("running_mean", "running_var")

# Which argument holds indices or classes.
_INDICES: Dict[Callable[..., Any], Tuple[int, str]] = {
    F.cross_entropy: (1, "target"),
    F.nll_loss: (1, "target"),
    F.multi_margin_loss: (1, "target"),
    F.one_hot: (0, "tensor"),
    torch.gather: (2, "index"),
    torch.Tensor.gather: (2, "index"),
    torch.take_along_dim: (1, "indices"),
    torch.scatter: (2, "index"),
    torch.Tensor.scatter: (2, "index"),
    torch.Tensor.scatter_: (2, "index"),
    torch.scatter_add: (2, "index"),
    torch.Tensor.scatter_add: (2, "index"),
    torch.Tensor.scatter_add_: (2, "index"),
    torch.scatter_reduce: (2, "index"),
    torch.Tensor.scatter_reduce: (2, "index"),
    torch.Tensor.scatter_reduce_: (2, "index"),
    torch.index_add: (2, "index"),
    torch.Tensor.index_add: (2, "index"),
    torch.Tensor.index_add_: (2, "index"),
}
_HALF_AND_FLOAT = {torch.float16, torch.float32}
_NARROW_INTEGERS = (torch.int32, torch.int16)


def on_ipu_types(func: Callable[..., Any], args: Arguments, kwargs: Dict[str, Any]) -> Tuple[Arguments, Dict[str, Any]]:
    """The arguments of a call as CPU torch takes them, with the meaning that they have on an IPU."""
    if func in _FOLLOWS_FIRST:
        return _follow_first(func, args, kwargs)
    if func in _INDICES:
        position, name = _INDICES[func]
        if len(args) > position:
            args = (*args[:position], _wide(args[position]), *args[position + 1 :])
        elif name in kwargs:
            kwargs = {**kwargs, name: _wide(kwargs[name])}
    return args, kwargs


def _follow_first(func: Callable[..., Any], args: Arguments, kwargs: Dict[str, Any]) -> Tuple[Arguments, Dict[str, Any]]:
    tensors: List[torch.Tensor] = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor) and v.is_floating_point()]
    if {t.dtype for t in tensors} != _HALF_AND_FLOAT:
        return args, kwargs
    first = tensors[0].dtype
    kept = _KEPT.get(func, ())

    def follow(value: Any) -> Any:
        return value.to(first) if isinstance(value, torch.Tensor) and value.dtype in _HALF_AND_FLOAT else value

    return (
        tuple(v if i in kept else follow(v) for i, v in enumerate(args)),
        {k: v if k in _KEPT_NAMES and kept else follow(v) for k, v in kwargs.items()},
    )


def _wide(value: Any) -> Any:
    return value.long() if isinstance(value, torch.Tensor) and value.dtype in _NARROW_INTEGERS else value
