"""A step as a cost model sees it: ops with their work and origin, and the memory that they read and write."""

from dataclasses import dataclass
from typing import Any, Dict, FrozenSet, List, Optional, Tuple

import torch
from torch.fx import Node

from softipu.graph import Role, Step
from softipu.graph.aliases import storage_key
from softipu.graph.device_value import device_value
from softipu.graph.effects import is_random, written_arguments
from softipu.graph.origin import Origin, origin_of
from softipu.ops import Work, work_of
from softipu.ops.registry import schema_name
from softipu.ops.tensors import element_bytes


@dataclass(frozen=True)
class Buffer:
    """Memory that one or several tensors of a step share.

    Attributes:
        bytes: on the device, where 64-bit types take 32.
        role: of the step's input that it holds; None for what the step makes.
        name: of that input.
        redrawn: filled by a random op, so that a backward pass can draw it again instead of keeping it.
    """

    bytes: float
    role: Optional[Role] = None
    name: str = ""
    redrawn: bool = False


@dataclass(frozen=True)
class Op:
    """One op that runs.

    Attributes:
        name: of its schema, such as "aten::mm".
        origin: module, direction and run.
        work: what it does.
        reads, writes: numbers of buffers.
    """

    name: str
    origin: Origin
    work: Work
    reads: Tuple[int, ...]
    writes: Tuple[int, ...]


@dataclass(frozen=True)
class Parameter:
    """Weights: name, number of elements, bytes of an element, and the buffer that holds them."""

    name: str
    elements: int
    element_bytes: int
    buffer: int


@dataclass(frozen=True)
class Workload:
    """Forward, and in training backward, of one micro-batch.

    Attributes:
        ops: that do something, in order; views are left out.
        buffers: all memory.
        parameters: the weights.
        gradients: names of weights that get a gradient, with the buffer of it.
        outputs: buffers that the host gets.
        training: whether there is a backward pass.
    """

    ops: Tuple[Op, ...]
    buffers: Tuple[Buffer, ...]
    parameters: Tuple[Parameter, ...]
    gradients: Tuple[Tuple[str, int], ...]
    outputs: FrozenSet[int]
    training: bool


def read_step(step: Step) -> Workload:
    """The workload of a captured step.

    Raises:
        UnknownOpError: an op without a work rule.
    """
    return _Reader(step).read()


class _Reader:
    def __init__(self, step: Step) -> None:
        self.step = step
        self.numbers: Dict[int, int] = {}
        self.buffers: List[Buffer] = []
        self.works: Dict[Work, Work] = {}  # layers repeat: equal work is one object, and is priced once

    def read(self) -> Workload:
        nodes = list(self.step.graph_module.graph.nodes)
        placeholders = [n for n in nodes if n.op == "placeholder"]
        parameters = []
        for node, value in zip(placeholders, self.step.inputs):
            number = self._buffer(node.meta["val"], value.role, value.name)
            if value.role is Role.PARAMETER:
                fake = node.meta["val"]
                parameters.append(Parameter(value.name, fake.numel(), element_bytes(fake.dtype), number))
        ops = [op for op in (self._op(n) for n in nodes if n.op == "call_function") if op is not None]
        returned = list(nodes[-1].args[0])
        gradients, outputs = [], set()
        for node, value in zip(returned, self.step.outputs):
            (number,) = self._of(node)
            if value.role is Role.GRADIENT:
                gradients.append((value.name, number))
            else:
                outputs.add(number)
        return Workload(tuple(ops), tuple(self.buffers), tuple(parameters), tuple(gradients), frozenset(outputs), self.step.training)

    def _op(self, node: Node) -> Optional[Op]:
        work = work_of(node)
        work = self.works.setdefault(work, work)
        made = self._of(node)
        if work.is_free:
            return None
        writes = dict.fromkeys([*made, *(n for target in written_arguments(node) for n in self._of(target))])
        reads = dict.fromkeys(n for source in node.all_input_nodes for n in self._of(source))
        if is_random(node) or work.family == "random":
            for number in made:
                self.buffers[number] = _redrawn(self.buffers[number])
        return Op(schema_name(node), origin_of(node), work, tuple(reads), tuple(writes))

    def _of(self, node: Any) -> Tuple[int, ...]:
        if not isinstance(node, Node):
            return ()
        value = device_value(node)
        values = value if isinstance(value, (list, tuple)) else [value]
        return tuple(self._buffer(v) for v in values if isinstance(v, torch.Tensor))

    def _buffer(self, fake: torch.Tensor, role: Optional[Role] = None, name: str = "") -> int:
        key = storage_key(fake)
        if key not in self.numbers:
            self.numbers[key] = len(self.buffers)
            n_elements = fake.untyped_storage().nbytes() / fake.element_size()
            self.buffers.append(Buffer(n_elements * element_bytes(fake.dtype), role, name))
        return self.numbers[key]


def _redrawn(buffer: Buffer) -> Buffer:
    return Buffer(buffer.bytes, buffer.role, buffer.name, redrawn=True)
