"""Weight updates whose new values are half: rounded up or down at random where options ask for it."""

from typing import Any

import torch
from torch.fx import Node

from softipu.graph.python_calls import PythonCall
from softipu.graph.seeds import mix
from softipu.graph.stochastic_rounding import round_stochastically
from softipu.runtime import RandomStream, UpdateProgram

aten = torch.ops.aten
_STREAM = 1 << 21  # beyond the numbers of the step's own draws


class CopyRounded(PythonCall):
    """Copies a float32 tensor into a half one, rounding by the device's random stream.

    Args:
        stream: counts the micro-steps, so every update draws anew.
        number: of this copy in the update.
    """

    __name__ = "copy_rounded"

    def __init__(self, stream: RandomStream, number: int) -> None:
        self._stream, self._number = stream, number
        self._generator = torch.Generator()

    def __call__(self, target: torch.Tensor, source: torch.Tensor) -> Any:
        seed = mix(self._stream.seed_of(0, _STREAM), self._number)
        return target.copy_(round_stochastically(source, self._generator.manual_seed(seed)))


def rounding_stochastically(update: UpdateProgram, stream: RandomStream) -> UpdateProgram:
    """``update`` with every copy into a half parameter or state rounded at random. Its graph is changed."""
    graph = update.graph_module.graph
    for number, node in enumerate([n for n in graph.nodes if n.op == "call_function" and n.target is aten.copy_.default]):
        target = node.args[0]
        if isinstance(target, Node) and target.op == "placeholder" and target.meta["input"].dtype == torch.float16:
            node.target = CopyRounded(stream, number)
    update.graph_module.recompile()
    return update
