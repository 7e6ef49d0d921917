"""A small transformer, captured once for each size."""

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import nn

from softipu.capture import capture
from softipu.capture.random_ops import seed_random_ops
from softipu.capture.update import GroupSpec, OptimizerSpec
from softipu.cost import Workload, read_step
from softipu.passes import run_passes


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width, n_layers):
        super().__init__()
        self.embedding = nn.Embedding(64, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(n_layers))
        self.head = nn.Linear(width, 64)

    def forward(self, tokens, *labels):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        scores = self.head(x)
        return F.cross_entropy(scores.flatten(0, 1), labels[0].flatten()) if labels else scores


@lru_cache(maxsize=None)
def workload(width: int = 32, n_layers: int = 4, micro_batch: int = 2, *, training: bool = True) -> Workload:
    """The workload of a micro-batch of sequences of 16 tokens, in half precision."""
    with torch.device("meta"):
        model = Model(width, n_layers).half()
    tokens = torch.zeros(micro_batch, 16, dtype=torch.int64)
    inputs = [tokens, tokens] if training else [tokens]
    step = seed_random_ops(capture(model, lambda t: [model(*t)], inputs, training=training))
    return read_step(run_passes(step)[0])


def adam(of: Workload) -> OptimizerSpec:
    """AdamW for all weights, with half accumulators."""
    names = tuple(p.name for p in of.parameters)
    group = GroupSpec(names, tuple(range(len(names))), weight_decay=True, decoupled=True)
    return OptimizerSpec("AdamW", (group,), accum_type=torch.float16)
