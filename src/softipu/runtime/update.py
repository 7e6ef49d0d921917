"""The optimizer's graph, bound to the memory that it updates."""

from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch.fx import GraphModule

from softipu.runtime.device_memory import DeviceMemory
from softipu.runtime.engine import Engine


@dataclass(frozen=True)
class UpdateProgram:
    """The optimizer's graph and what its inputs are: (role, name), in order; roles parameter, gradient, state and hyper.

    Attributes:
        form: ``fused``: hyper inputs are Python floats; ``elementwise``: 0-d float64 tensors.
    """

    graph_module: GraphModule
    inputs: Tuple[Tuple[str, str], ...]
    form: str = "fused"


class BoundUpdate:
    """One weight update per call, in place.

    The kernels of an update go through memory in order, so a gradient has to lie there as its parameter does. Some kernels leave
    it otherwise than the capture took it to be; which ones is seen in the first call, for it is the same in every call.

    Args:
        program: the graph.
        memory: parameters and optimizer state, as they are now; both stay where they are.
        gradients: names of the gradients, in the order that calls give them.
        engine: makes the graph callable.
    """

    def __init__(self, program: UpdateProgram, memory: DeviceMemory, gradients: Sequence[str], engine: Engine) -> None:
        held = {"parameter": memory.parameters, "gradient": memory.parameters, "state": memory.optimizer_state}
        is_tensor = program.form == "elementwise"
        number: Any = torch.zeros((), dtype=torch.float64) if is_tensor else 0.0
        examples = [held[role][name] if role in held else number for role, name in program.inputs]
        self._function = engine.compile(program.graph_module, examples, "update")
        self._values: List[Any] = [held[role][name] if role in ("parameter", "state") else None for role, name in program.inputs]
        self._gradients = [(i, gradients.index(name)) for i, (role, name) in enumerate(program.inputs) if role == "gradient"]
        self._hyper = [i for i, (role, _) in enumerate(program.inputs) if role == "hyper"]
        self._is_tensor = is_tensor
        for i in self._hyper:
            self._values[i] = torch.zeros((), dtype=torch.float64) if is_tensor else 0.0
        self._numbers: Sequence[float] = ()
        self._owners = [memory.parameters[name] for name in gradients]
        self._misplaced: Optional[List[int]] = None  # not known before the first call

    def set_hyper(self, numbers: Sequence[float]) -> None:
        """The numbers of the calls that follow, one for each hyper input."""
        if numbers == self._numbers:
            return
        assert len(numbers) == len(self._hyper), f"The update takes {len(self._hyper)} numbers, given {len(numbers)}"
        self._numbers = list(numbers)
        for i, number in zip(self._hyper, numbers):
            if self._is_tensor:
                self._values[i].fill_(number)
            else:
                self._values[i] = number

    def __call__(self, gradients: Sequence[torch.Tensor]) -> None:
        values = self._values
        if self._misplaced is None:
            self._misplaced = [i for i, (g, p) in enumerate(zip(gradients, self._owners)) if g.stride() != p.stride()]
        if self._misplaced:
            gradients = list(gradients)
            for index in self._misplaced:
                gradients[index] = torch.empty_like(self._owners[index], dtype=gradients[index].dtype).copy_(gradients[index])
        for i, index in self._gradients:
            values[i] = gradients[index]
        self._function(*values)
        for i, _ in self._gradients:  # a gradient lives no longer than its update
            values[i] = None
