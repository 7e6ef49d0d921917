"""What an optimizer rule is: its hyper-parameters, its state, and the two forms of its update.

Every rule works on one parameter group at a time. The builder hands it tensors of one dtype and reads the results back,
so no rule knows about half precision, gradient scaling or clipping.
"""

from dataclasses import dataclass
from typing import Callable, Dict, List, Tuple

import torch
from torch.fx import Node

from softipu.capture.update.spec import GroupSpec, OptimizerSpec
from softipu.capture.update.tape import Tape


@dataclass(frozen=True)
class Slot:
    """One kind of optimizer state.

    Attributes:
        prefix: PopART's name; the state of a parameter is called ``<prefix>___<parameter>``.
        torch_key: the key of torch.optim's own state.
        dtype: storage of a float32 parameter's state.
        initial: value before the first update.
        scalar: one number per parameter instead of one per element.
    """

    prefix: str
    torch_key: str
    dtype: torch.dtype = torch.float32
    initial: float = 0.0
    scalar: bool = False


STEP = Slot("Step", "step", scalar=True)
"""Number of updates so far, in float32 as in PopART."""


@dataclass
class Group:
    """The tensors of one parameter group, all of one dtype, in the same order; ``states`` by slot prefix."""

    parameters: List[Node]
    gradients: List[Node]
    states: Dict[str, List[Node]]
    hyper: Dict[str, Node]


@dataclass(frozen=True)
class Rule:
    """An optimizer's mathematics.

    Attributes:
        hyper: names of the group's hyper-parameters, for ``hyper_values``.
        slots: the states that a parameter of the group has.
        fused: appends the update with the fewest calls; changes ``group`` in place. Hyper-parameters are Python floats.
        elementwise: appends plain ATen arithmetic and replaces the lists in ``group`` by the results, leaving the inputs alone.
            Hyper-parameters are 0-d float64 tensors.
    """

    hyper: Callable[[OptimizerSpec, GroupSpec], Tuple[str, ...]]
    slots: Callable[[OptimizerSpec, GroupSpec], Tuple[Slot, ...]]
    fused: Callable[[Tape, OptimizerSpec, GroupSpec, Group], None]
    elementwise: Callable[[Tape, OptimizerSpec, GroupSpec, Group], None]
