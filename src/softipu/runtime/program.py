"""Runs a Step on the CPU: device iterations, accumulation, replicas, and one update per iteration."""

from dataclasses import dataclass
from typing import Any, List, Optional, Sequence

import torch

from softipu.graph import Role, Step
from softipu.graph.aliases import node_storage
from softipu.runtime.accumulation import Accumulation, PlainSum, SumByGroup
from softipu.runtime.anchors import Observer
from softipu.runtime.batch import BatchShape
from softipu.runtime.device_memory import DeviceMemory
from softipu.runtime.engine import Engine
from softipu.runtime.host_allocator import keep_freed_memory
from softipu.runtime.interpreter import Interpreter
from softipu.runtime.outputs import Collector, OutputRule
from softipu.runtime.update import BoundUpdate, UpdateProgram


@dataclass(frozen=True)
class Batched:
    """A step for several micro-batches at once.

    Attributes:
        step: inputs and outputs have a first dimension of ``n``, so has the seed; gradients are sums.
        n: micro-batches, in the order of the rows; those of one weight update (of one call in inference) divide by it.
    """

    step: Step
    n: int


class Program:
    """A step ready to run, with the memory of the device it runs on.

    Args:
        step: the captured micro-batch.
        update: the optimizer's graph; None for inference.
        shape: micro-batches per call.
        rule: which outputs a call returns.
        memory: weights, buffers and optimizer state; written in place.
        engine: makes graphs callable; default the interpreter.
        batched: runs in the place of ``step``, several micro-batches at once; the step must not write buffers or inputs.
        accumulation: adds up gradients; default in their own types, by group for parameters that differ between replicas.

    Attributes:
        observers: look on while it runs. Only for a program that is not batched.

    Raises:
        CannotCompile: the engine cannot run the step or the update.
    """

    def __init__(
        self,
        step: Step,
        update: Optional[UpdateProgram],
        shape: BatchShape,
        rule: OutputRule,
        memory: DeviceMemory,
        engine: Optional[Engine] = None,
        batched: Optional[Batched] = None,
        accumulation: Optional[Accumulation] = None,
    ) -> None:
        self.step, self.shape, self.rule, self.memory = step, shape, rule, memory
        self.engine = engine if engine is not None else Interpreter()
        self.n_batched = batched.n if batched is not None else 1
        self._running = batched.step if batched is not None else step
        self._is_batched = batched is not None
        self._heads = [self._head_of(replica) for replica in range(memory.n_copies)]
        self._micro_step = self.engine.compile(self._running.graph_module, self._examples(), "micro step")
        self._shared = _shared_outputs(self._running)
        self._n_outputs = len(self._shared)
        self._is_random = step.n_random_ops > 0
        self._loss_scale = torch.ones(())
        self._seed = torch.zeros((), dtype=torch.int64)
        self._gradients = step.named_outputs(Role.GRADIENT)
        self._end_of_gradients = self._n_outputs + len(self._gradients)
        self._accumulation: Accumulation = accumulation or (SumByGroup(self._gradients, memory.groups) if memory.groups else PlainSum())
        assert batched is None or type(self._accumulation) is PlainSum, "Gradients of several micro-batches come added up."
        self.observers: List[Observer] = []
        if update is not None:
            keep_freed_memory()
        self.set_update(update)

    def set_update(self, update: Optional[UpdateProgram]) -> None:
        """Runs ``update`` after each iteration from now on, on the optimizer state that ``memory`` has now."""
        self._update = BoundUpdate(update, self.memory, self._gradients, self.engine) if update is not None else None

    def run(self, inputs: Sequence[torch.Tensor], hyper: Sequence[float] = (), loss_scale: float = 1.0) -> List[torch.Tensor]:
        """One call of the host: every micro-batch, one update per device iteration.

        Args:
            inputs: host batches [n_slices * micro-batch, ...]; 0-d tensors go to every micro-batch. Written in place where the step does.
            hyper: values of the update's hyper inputs, in its order; constant for the whole call.
            loss_scale: multiplies the gradients of the micro-batches.

        Returns:
            One tensor per output of the step, as ``rule`` says.
        """
        if self._update is not None:
            self._update.set_hyper(hyper)
        tail = self._tail(loss_scale)
        collector = Collector(self.rule, self.shape, self._shared)
        if self._is_batched:
            self._run_batched(inputs, tail, collector)
        else:
            self._run_one_by_one(inputs, tail, collector)
        return collector.result()

    def _run_one_by_one(self, inputs: Sequence[torch.Tensor], tail: List[torch.Tensor], collector: Collector) -> None:
        shape, micro_step, update, observers = self.shape, self._micro_step, self._update, self.observers
        first, end = self._n_outputs, self._end_of_gradients
        stream, heads, accumulation_of = self.memory.stream, self._heads, self._accumulation
        pieces = list(zip(*[shape.cut(t) for t in inputs])) if inputs else [()] * shape.n_slices
        for observer in observers:
            observer.begins()
        for iteration in range(shape.n_iterations):
            for accumulation in range(shape.n_accumulated):
                for replica in range(shape.n_replicas):
                    if self._is_random:
                        self._seed.fill_(stream.seed_of(0, replica))
                    piece = pieces[shape.slice_index(iteration, accumulation, replica)]
                    results = micro_step(*heads[replica % len(heads)], *piece, *tail)
                    collector.add(iteration, accumulation, replica, results)
                    for observer in observers:
                        observer.micro_batch(iteration, accumulation, replica, results[end:])
                    if update is not None:
                        accumulation_of.add(replica, results[first:end])
                stream.n_drawn += 1
            if update is not None:
                gradients = accumulation_of.total()
                for observer in observers:
                    observer.before_update(iteration, gradients)
                update(gradients)
                for observer in observers:
                    observer.after_update(iteration, self.memory)

    def _run_batched(self, inputs: Sequence[torch.Tensor], tail: List[torch.Tensor], collector: Collector) -> None:
        assert not self.observers, "What happens inside a group of micro-batches cannot be observed."
        shape, n, n_outputs, stream = self.shape, self.n_batched, self._n_outputs, self.memory.stream
        pieces = list(zip(*[_cut_batched(t, shape.n_slices, n) for t in inputs]))
        micro_batches = list(shape.order())
        per_update = shape.n_accumulated * shape.n_replicas
        for call, start in enumerate(range(0, shape.n_micro_batches, n)):
            end = start + n
            group = micro_batches[start:end]
            if self._is_random:
                tail[-1] = torch.tensor(
                    [stream.seed_of(i // shape.n_replicas - start // shape.n_replicas, i % shape.n_replicas) for i in range(start, end)]
                )
            results = self._micro_step(*self._heads[0], *pieces[call], *tail)
            collector.add_group(group, results)
            if self._update is not None:
                self._accumulation.add(0, results[n_outputs:])
                if end % per_update == 0:
                    self._update(self._accumulation.total())
            stream.n_drawn += end // shape.n_replicas - start // shape.n_replicas

    def _tail(self, loss_scale: float) -> List[torch.Tensor]:
        tail = []
        if self.step.training:
            self._loss_scale.fill_(loss_scale)
            tail.append(self._loss_scale)
        if self._is_random:
            tail.append(self._seed)
        return tail

    def _head_of(self, replica: int) -> List[torch.Tensor]:
        held = {Role.PARAMETER: self.memory.parameters_of(replica), Role.BUFFER: self.memory.buffers_of(replica)}
        return [held[v.role][v.name] for v in self._running.inputs if v.role in held]

    def _examples(self) -> List[Any]:
        placeholders = [n for n in self._running.graph_module.graph.nodes if n.op == "placeholder"]
        head = self._heads[0]
        return head + [node.meta["val"] for node in placeholders[len(head) :]]


def _cut_batched(tensor: torch.Tensor, n_slices: int, n: int) -> Sequence[torch.Tensor]:
    """Views [n, micro-batch, ...] of a host batch; a 0-d tensor goes whole to every micro-batch."""
    if tensor.dim() == 0:
        return [tensor] * (n_slices // n)
    return tensor.view(n_slices // n, n, tensor.shape[0] // n_slices, *tensor.shape[1:]).unbind(0)


def _shared_outputs(step: Step) -> List[bool]:
    """For every output: whether it shares memory with an input of the graph, a constant, or another output."""
    nodes = list(step.graph_module.graph.nodes)
    outside = {node_storage(n) for n in nodes if n.op in ("placeholder", "get_attr")}
    returned = list(nodes[-1].args[0])
    n_outputs = len(step.named_outputs(Role.OUTPUT))
    keys = [node_storage(n) for n in returned]
    return [keys[i] in outside or keys.count(keys[i]) > 1 for i in range(n_outputs)]


__all__ = ["Batched", "Program", "UpdateProgram"]
