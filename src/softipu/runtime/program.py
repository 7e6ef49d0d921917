"""Runs a Step on the CPU: device iterations, accumulation, replicas, and one update per iteration."""

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch.fx import GraphModule

from softipu.graph import Role, Step
from softipu.graph.aliases import node_storage
from softipu.runtime.batch import BatchShape
from softipu.runtime.device_memory import DeviceMemory
from softipu.runtime.interpreter import compile_graph
from softipu.runtime.outputs import Collector, OutputRule

Engine = Callable[[GraphModule], Callable[..., Any]]


@dataclass(frozen=True)
class UpdateProgram:
    """The optimizer's graph and what its inputs are: (role, name), in order; roles parameter, gradient, state and hyper."""

    graph_module: GraphModule
    inputs: Tuple[Tuple[str, str], ...]


class Program:
    """A step ready to run, with the memory of the device it runs on.

    Args:
        step: the captured micro-batch.
        update: the optimizer's graph; None for inference.
        shape: micro-batches per call.
        rule: which outputs a call returns.
        memory: weights, buffers and optimizer state; written in place.
        engine: makes a graph callable.
    """

    def __init__(
        self,
        step: Step,
        update: Optional[UpdateProgram],
        shape: BatchShape,
        rule: OutputRule,
        memory: DeviceMemory,
        engine: Engine = compile_graph,
    ) -> None:
        self.step, self.shape, self.rule, self.memory = step, shape, rule, memory
        self._micro_step = engine(step.graph_module)
        self._shared = _shared_outputs(step)
        self._n_outputs = len(self._shared)
        self._random = step.n_random_ops > 0
        self._seed = torch.zeros((), dtype=torch.int64)
        self._head = [self._head_of(replica) for replica in range(shape.n_replicas)]
        self._gradients = step.named_outputs(Role.GRADIENT)
        self._engine = engine
        self.set_update(update)

    def set_update(self, update: Optional[UpdateProgram]) -> None:
        """Runs ``update`` after each iteration from now on, on the optimizer state that ``memory`` has now."""
        self._update = self._engine(update.graph_module) if update else None
        self._update_inputs = update.inputs if update else ()
        fixed = {"parameter": self.memory.parameters, "state": self.memory.optimizer_state}
        self._fixed_update_inputs: List[Any] = [fixed.get(role, {}).get(name) for role, name in self._update_inputs]
        self._gradient_slots = [(i, self._gradients.index(name)) for i, (role, name) in enumerate(self._update_inputs) if role == "gradient"]
        self._hyper_slots = [i for i, (role, _) in enumerate(self._update_inputs) if role == "hyper"]

    def run(self, inputs: Sequence[torch.Tensor], hyper: Sequence[float] = (), loss_scale: float = 1.0) -> List[torch.Tensor]:
        """One call of the host: every micro-batch, one update per device iteration.

        Args:
            inputs: host batches [n_slices * micro-batch, ...]; 0-d tensors go to every micro-batch. Written in place where the step does.
            hyper: values of the update's hyper inputs, in its order; constant for the whole call.
            loss_scale: multiplies the gradients of the micro-batches.

        Returns:
            One tensor per output of the step, as ``rule`` says.
        """
        shape = self.shape
        pieces = list(zip(*[shape.cut(t) for t in inputs])) if inputs else [()] * shape.n_slices
        tail = [torch.full((), loss_scale)] if self.step.training else []
        if self._random:
            tail.append(self._seed)
        collector = Collector(self.rule, shape, self._shared)
        for iteration in range(shape.n_iterations):
            accumulated: Optional[List[torch.Tensor]] = None
            for accumulation in range(shape.n_accumulated):
                for replica in range(shape.n_replicas):
                    if self._random:
                        self._seed.fill_(self.memory.stream.micro_batch_seed(replica))
                    piece = pieces[shape.slice_index(iteration, accumulation, replica)]
                    results = self._micro_step(*self._head[replica], *piece, *tail)
                    collector.add(iteration, accumulation, replica, results[: self._n_outputs])
                    if self._update is not None:
                        gradients = results[self._n_outputs :]
                        if accumulated is None:
                            accumulated = list(gradients)
                        else:
                            torch._foreach_add_(accumulated, list(gradients))
                self.memory.stream.n_drawn += 1
            if self._update is not None and accumulated is not None:
                self._run_update(accumulated, hyper)
        return collector.result()

    def _run_update(self, gradients: List[torch.Tensor], hyper: Sequence[float]) -> None:
        assert self._update is not None
        values = list(self._fixed_update_inputs)
        for position, index in self._gradient_slots:
            values[position] = gradients[index]
        for position, value in zip(self._hyper_slots, hyper):
            values[position] = value
        self._update(*values)

    def _head_of(self, replica: int) -> List[torch.Tensor]:
        buffers = self.memory.buffers_of(replica)
        by_role: Dict[Role, Dict[str, torch.Tensor]] = {Role.PARAMETER: self.memory.parameters, Role.BUFFER: buffers}
        return [by_role[v.role][v.name] for v in self.step.inputs if v.role in by_role]


def _shared_outputs(step: Step) -> List[bool]:
    """For every output: whether it shares memory with an input of the graph, a constant, or another output."""
    nodes = list(step.graph_module.graph.nodes)
    outside = {node_storage(n) for n in nodes if n.op in ("placeholder", "get_attr")}
    returned = list(nodes[-1].args[0])
    n_outputs = len(step.named_outputs(Role.OUTPUT))
    keys = [node_storage(n) for n in returned]
    return [keys[i] in outside or keys.count(keys[i]) > 1 for i in range(n_outputs)]


__all__ = ["Engine", "Program", "UpdateProgram"]
