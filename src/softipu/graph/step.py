"""A Step: what one training or inference call asks of one IPU for one micro-batch."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import FrozenSet, Optional, Tuple

import torch


class Role(Enum):
    """What an input or output of a step's graph is to the run."""

    PARAMETER = "parameter"  # weights, the same on every replica
    BUFFER = "buffer"  # state that the step may write in place, one per replica
    INPUT = "input"  # the rows of one micro-batch
    SEED = "seed"  # int64 scalar; every random op draws from (seed, its own number)
    LOSS_SCALE = "loss_scale"  # gradient that enters the backward pass at the loss
    OUTPUT = "output"  # what the module returned
    GRADIENT = "gradient"  # of the parameter of the same name
    ANCHOR = "anchor"  # an inner value that somebody wants to see


@dataclass(frozen=True)
class Value:
    """One input or output of a graph: its role, its name within the role, its shape and dtype for one micro-batch."""

    role: Role
    name: str
    shape: Tuple[int, ...]
    dtype: torch.dtype

    def __str__(self) -> str:
        dims = ", ".join(str(n) for n in self.shape)
        return f"{self.role.value} {self.name}: {str(self.dtype)[6:]}[{dims}]"


@dataclass(frozen=True)
class Step:
    """Forward, and in training backward, of one micro-batch as a torch.fx graph of ATen ops.

    The graph takes one value per entry of ``inputs`` and returns one per entry of ``outputs``, in order.
    In-place ops stay in it; ``mutated`` names the inputs (role.value + "." + name) that they write.

    Attributes:
        graph_module: the graph; every node carries its fake value in ``meta["val"]``.
        inputs: one per placeholder.
        outputs: one per returned value: the module's, the gradients, each in the layout of its parameter, then anchors.
        mutated: inputs that the graph writes in place.
        training: whether the graph holds a backward pass.
        n_random_ops: ops that draw random numbers.
    """

    graph_module: torch.fx.GraphModule
    inputs: Tuple[Value, ...]
    outputs: Tuple[Value, ...]
    mutated: FrozenSet[str]
    training: bool
    n_random_ops: int = 0

    def named_inputs(self, role: Role) -> Tuple[str, ...]:
        return tuple(v.name for v in self.inputs if v.role is role)

    def named_outputs(self, role: Role) -> Tuple[str, ...]:
        return tuple(v.name for v in self.outputs if v.role is role)

    def mutates(self, role: Role, name: str) -> bool:
        return f"{role.value}.{name}" in self.mutated

    def with_graph(self, graph_module: torch.fx.GraphModule, n_random_ops: Optional[int] = None) -> "Step":
        """This step with another graph of the same inputs and outputs."""
        n = self.n_random_ops if n_random_ops is None else n_random_ops
        return replace(self, graph_module=graph_module, n_random_ops=n)
