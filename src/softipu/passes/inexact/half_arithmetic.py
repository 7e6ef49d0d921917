"""Half arithmetic as an IPU does it with float partials: computed in float32, every result rounded to half.

CPU torch has half kernels for some ops only (2.0.1: no matmul), and accumulates in some of them in half.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Dict

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate

from softipu.capture._torch_private import fake_of_dtype
from softipu.graph.device_value import keep_device_value
from softipu.graph.effects import overload_of, written_arguments
from softipu.graph.origin import KEY, origin_of

aten = torch.ops.aten

# Ops that move or make values and compute nothing; half goes through them as it is.
_MOVES = frozenset(
    """
    _to_copy copy_ copy clone detach alias empty empty_like new_empty zeros zeros_like new_zeros ones ones_like new_ones full
    full_like new_full fill fill_ zero_ view _unsafe_view reshape _reshape_alias expand permute transpose t slice select unsqueeze
    squeeze unbind split split_with_sizes chunk cat stack as_strided contiguous lift_fresh lift_fresh_copy constant_pad_nd flip
    roll repeat index gather index_select embedding unfold diagonal narrow slice_backward select_backward slice_scatter
    select_scatter where masked_fill masked_fill_ empty_strided new_empty_strided view_as_real view_as_complex arange
    scalar_tensor native_dropout movedim squeeze_ unsqueeze_ transpose_ t_ as_strided_ swapaxes_ swapdims_ detach_ resize_ resize_as_
    """.split()
)


@dataclass(frozen=True)
class HalfArithmetic:
    """float16 op -> cast to float32, op, cast to float16."""

    name: ClassVar[str] = "half-arithmetic"

    def run(self, graph_module: GraphModule) -> bool:
        changed = False
        for node in list(graph_module.graph.nodes):
            if _computes_in_half(node):
                _widen(graph_module, node)
                changed = True
        return changed


def _computes_in_half(node: Node) -> bool:
    op = overload_of(node)
    if op is None or op._schema.name.split("::")[-1] in _MOVES or op._schema.name.startswith("softipu::"):
        return False
    return any(_is_half(n.meta.get("val")) for n in node.all_input_nodes)


def _is_half(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_is_half(v) for v in value)
    return isinstance(value, torch.Tensor) and value.dtype == torch.float16


def _widen(graph_module: GraphModule, node: Node) -> None:
    graph = graph_module.graph
    wide: Dict[Node, Node] = {}
    written = [n for n in written_arguments(node) if _is_half(n.meta.get("val"))]
    users = list(node.users)
    with graph.inserting_before(node):
        for source in node.all_input_nodes:
            if isinstance(source.meta.get("val"), torch.Tensor) and _is_half(source.meta["val"]):
                wide[source] = graph.call_function(aten._to_copy.default, (source,), {"dtype": torch.float32})
                # It runs where its op does: a weight belongs to no block of its own.
                wide[source].meta.update({**source.meta, "val": fake_of_dtype(source.meta["val"], torch.float32), KEY: origin_of(node)})
                keep_device_value(wide[source], source.meta["val"], emulated=True)
    node.args = map_aggregate(node.args, lambda v: _wide_dtype(wide.get(v, v) if isinstance(v, Node) else v))
    node.kwargs = map_aggregate(node.kwargs, lambda v: _wide_dtype(wide.get(v, v) if isinstance(v, Node) else v))
    result = node.meta.get("val")
    keep_device_value(node, result)
    with graph.inserting_after(node):
        if written:  # an in-place op worked on a wide copy: round it back into the tensor
            target = written[0]
            back = graph.call_function(aten.copy_.default, (target, wide[target]))
            back.meta.update(node.meta)
            keep_device_value(back, target.meta["val"], emulated=True)
            if isinstance(result, torch.Tensor):
                node.replace_all_uses_with(back, delete_user_cb=lambda user: user is not back)
            _write_others(graph_module, node, written[1:], wide)
        elif isinstance(result, torch.Tensor) and result.dtype == torch.float16:
            narrow = graph.call_function(aten._to_copy.default, (node,), {"dtype": torch.float16})
            narrow.meta.update(node.meta)
            keep_device_value(narrow, result, emulated=True)
            node.replace_all_uses_with(narrow, delete_user_cb=lambda user: user is not narrow)
            node.meta = {**node.meta, "val": fake_of_dtype(result, torch.float32)}
    if isinstance(result, (list, tuple)):
        _narrow_items(graph_module, node, users, result)


def _wide_dtype(value: Any) -> Any:
    return torch.float32 if value is torch.float16 else value


def _write_others(graph_module: GraphModule, node: Node, targets: Any, wide: Dict[Node, Node]) -> None:
    for target in targets:
        back = graph_module.graph.call_function(aten.copy_.default, (target, wide[target]))
        back.meta.update(target.meta)
        keep_device_value(back, target.meta["val"], emulated=True)


def _narrow_items(graph_module: GraphModule, node: Node, users: Any, result: Any) -> None:
    """Rounds what is taken out of an op's several results."""
    graph = graph_module.graph
    for item in users:
        value = item.meta.get("val")
        if item.op == "call_function" and isinstance(value, torch.Tensor) and value.dtype == torch.float16:
            with graph.inserting_after(item):
                narrow = graph.call_function(aten._to_copy.default, (item,), {"dtype": torch.float16})
            narrow.meta.update(item.meta)
            keep_device_value(item, value)
            keep_device_value(narrow, value, emulated=True)
            item.replace_all_uses_with(narrow, delete_user_cb=lambda user, keep=narrow: user is not keep)
            item.meta = {**item.meta, "val": fake_of_dtype(value, torch.float32)}
    node.meta = {**node.meta, "val": tuple(fake_of_dtype(v, torch.float32) if _is_half(v) else v for v in result)}
