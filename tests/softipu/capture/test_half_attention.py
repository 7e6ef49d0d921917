"""Attention keeps the precision that it is given."""

import torch
from torch import nn
from torch.nn import functional as F

from softipu.capture import capture


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 8).half()

    def forward(self, x):
        q = self.project(x)
        return F.mse_loss(F.scaled_dot_product_attention(q, q, q, dropout_p=0.1), x)


def test_half_attention_is_written_down_in_half():
    allowed = getattr(torch.backends.cuda, "fp16_bf16_reduction_math_sdp_allowed", bool)
    before = allowed()
    module = Attention()
    step = capture(module, lambda inputs: [module(*inputs)], [torch.zeros(1, 2, 4, 8, dtype=torch.half)], training=True)
    values = [node.meta["val"] for node in step.graph_module.graph.nodes if isinstance(node.meta.get("val"), torch.Tensor)]
    assert any(node.op == "call_function" and "softmax" in str(node.target) for node in step.graph_module.graph.nodes)
    wide = [value for value in values if value.dtype == torch.float32]
    assert all(value.numel() == 1 for value in wide)  # the loss scale
    assert allowed() == before
