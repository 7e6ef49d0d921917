"""Every node of a step knows its module, in the backward pass too."""

from typing import Any, Dict, List

import torch
import torch.nn.functional as F
from torch import nn

from softipu.capture import capture
from softipu.graph import Step
from softipu.graph.origin import Origin, origin_of

aten = torch.ops.aten


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Square.apply(self.norm(F.gelu(self.linear(x))) + x)


class Again(torch.autograd.Function):
    """Keeps only the input of a module and runs it again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, block: nn.Module, x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        ctx.block, ctx.parameters = block, parameters
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.block(x)
        return (None, *torch.autograd.grad([y], [x, *ctx.parameters], [gradient]))


class Model(nn.Module):
    def __init__(self, *, again: bool = False) -> None:
        super().__init__()
        self.blocks, self.head, self.again = nn.ModuleList(Block() for _ in range(2)), nn.Linear(8, 3), again

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x.tanh()
        for block in self.blocks:
            x = Again.apply(block, x, *block.parameters()) if self.again else block(x)
        return F.cross_entropy(self.head(x.sigmoid()), y)


def captured(module: nn.Module) -> Step:
    inputs = [torch.randn(4, 8), torch.zeros(4, dtype=torch.long)]
    return capture(module, lambda tensors: [module(*tensors)], inputs, training=True)


def origins(step: Step) -> Dict[object, List[Origin]]:
    found: Dict[object, List[Origin]] = {}
    for node in step.graph_module.graph.nodes:
        found.setdefault(node.target, []).append(origin_of(node))
    return found


def test_forward_ops_have_the_path_of_their_module():
    found = origins(captured(Model()))
    assert [o.module for o in found[aten.addmm.default]] == ["blocks.0.linear", "blocks.1.linear", "head"]
    assert [o.module for o in found[aten.gelu.default]] == ["blocks.0", "blocks.1"]
    assert not any(o.backward for o in found[aten.gelu.default])


def test_backward_ops_have_the_path_of_the_forward_op():
    found = origins(captured(Model()))
    assert [o.module for o in found[aten.native_layer_norm_backward.default]] == ["blocks.1.norm", "blocks.0.norm"]
    assert [o.module for o in found[aten.gelu_backward.default]] == ["blocks.1", "blocks.0"]
    assert [o.module for o in found[aten.sigmoid_backward.default]] == [""]
    assert all(o.backward for o in found[aten.mm.default])


def test_backward_ops_have_the_run_of_the_forward_op():
    found = origins(captured(Model()))
    assert [o.run for o in found[aten.gelu.default]] == [o.run for o in reversed(found[aten.gelu_backward.default])]
    assert found[aten.sigmoid.default][0].run == found[aten.sigmoid_backward.default][0].run
    assert found[aten.tanh.default][0].run < found[aten.sigmoid.default][0].run


def test_forward_of_a_module_done_again_counts_as_backward():
    found = origins(captured(Model(again=True)))
    assert [(o.module, o.backward) for o in found[aten.gelu.default]] == [
        ("blocks.0", False), ("blocks.1", False), ("blocks.1", True), ("blocks.0", True),
    ]  # fmt: skip


def test_no_hook_stays_on_the_module():
    model = Model()
    captured(model)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_module_without_weights_is_captured_as_one_with_them():
    with torch.device("meta"):
        hollow = Model()
    assert [str(v) for v in captured(hollow).outputs] == [str(v) for v in captured(Model()).outputs]


def test_only_a_module_and_those_in_it_are_inside():
    origin = Origin("encoder.layer.1.output")
    assert origin.inside("") and origin.inside("encoder.layer.1") and origin.inside("encoder.layer.1.output")
    assert (
        not origin.inside("encoder.layer.1.output.dense")
        and not origin.inside("encoder.layer.10")
        and not origin.inside("encoder.layer.1.out")
    )
