"""From an OptimizerSpec to the update graph: a torch.fx graph of ATen ops that changes parameters and state in place."""

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch
from torch.fx import GraphModule, Node

from softipu.capture.update import gradients as gradient_ops
from softipu.capture.update.hyper import read_hyper
from softipu.capture.update.rule import Group, Slot
from softipu.capture.update.rules import RULES
from softipu.capture.update.spec import GroupSpec, OptimizerSpec
from softipu.capture.update.tape import Tape, aten

FORMS = ("fused", "elementwise")


@dataclass(frozen=True)
class Input:
    """One input of an update graph.

    Attributes:
        role: parameter, gradient, state or hyper.
        name: a parameter's name (also for its gradient), ``<slot>___<parameter>`` for a state, ``<hyper>_<group>`` such as
            ``lr_0``, or ``gradient_scale`` and ``max_grad_norm``.
        shape, dtype: of the tensor; of hyper-parameters ``()`` and torch.float64.
        slot: what kind of state it is.
    """

    role: str
    name: str
    shape: Tuple[int, ...]
    dtype: torch.dtype
    slot: Optional[Slot] = None


@dataclass(frozen=True, eq=False)
class Update:
    """One optimizer step as a graph.

    ``graph_module(*parameters, *gradients, *states, *hypers)``, in the order of ``inputs``, changes parameters and states in
    place and returns nothing; gradients may be overwritten. Call it with autograd off.

    Attributes:
        graph_module: the graph; its placeholders carry their ``Input`` as ``meta["input"]``.
        inputs: one entry for each placeholder.
        spec: what it was built from.
        form: ``fused``: hyper-parameters are Python floats; ``elementwise``: 0-d float64 tensors.
        hyper: the names of the hyper-parameters whose values ``hyper_values`` returns, in its order.
        scaled, clipped: whether ``gradient_scale`` and ``max_grad_norm`` follow after them, in this order.
    """

    graph_module: GraphModule
    inputs: Tuple[Input, ...]
    spec: OptimizerSpec
    form: str
    hyper: Tuple[str, ...]
    scaled: bool
    clipped: bool

    def names(self, role: str) -> Tuple[str, ...]:
        """Names of the inputs with a role, in order."""
        return tuple(entry.name for entry in self.inputs if entry.role == role)


def hyper_values(optimizer: torch.optim.Optimizer, spec: OptimizerSpec) -> Tuple[float, ...]:
    """The optimizer's current numbers, in the order of ``Update.hyper``.

    Raises:
        AssertionError: a value that is not a number, betas that are not a pair, or fewer groups than the spec has.
    """
    groups = optimizer.param_groups
    assert len(groups) == len(spec.groups), (
        f"The optimizer has {len(groups)} parameter groups, but the update was built for {len(spec.groups)}. "
        "Build it again after adding groups."
    )
    rule = RULES[spec.rule]
    return tuple(
        read_hyper(optimizer, group, name)
        for group, flags in zip(groups, spec.groups)
        if flags.parameters
        for name in rule.hyper(spec, flags)
    )


def build_update(
    spec: OptimizerSpec,
    parameters: Mapping[str, torch.Tensor],
    *,
    form: str = "fused",
    scaled: bool = False,
    clipped: bool = False,
    dense_gradients: bool = False,
) -> Update:
    """The update graph for the parameters that have a gradient.

    Args:
        spec: from ``read_optimizer``.
        parameters: tensors (or anything with shape, dtype and layout) by name. Those of the spec that are missing keep their
            value; those that are in no group of the optimizer have no part in the update.
        form: ``fused`` has few calls per step, for the interpreter. ``elementwise`` is plain ATen arithmetic for a compiler:
            it computes new values and ends with one ``copy_`` for each parameter and state.
        scaled: takes ``gradient_scale`` and multiplies every gradient by it first.
        clipped: takes ``max_grad_norm`` and clips the (scaled) gradients by their global 2-norm; infinity is off.
        dense_gradients: the caller's promise that every gradient is laid out in memory as its parameter is. Without it
            the fused kernels, which read memory in order, are given contiguous copies of those that are not.

    Raises:
        ValueError: an unknown form.
    """
    if form not in FORMS:
        raise ValueError(f"Unknown form {form!r} of an update; allowed are {' and '.join(FORMS)}.")
    builder = _Builder(spec, parameters, form == "fused", dense_gradients)
    return builder.build(scaled, clipped)


class _Builder:
    def __init__(self, spec: OptimizerSpec, parameters: Mapping[str, torch.Tensor], fused: bool, dense_gradients: bool) -> None:
        self.spec = spec
        self.rule = RULES[spec.rule]
        self.fused = fused
        self.dense_gradients = dense_gradients
        self.tape = Tape()
        self.inputs: List[Input] = []
        self.names: List[List[str]] = [[name for name in group.parameters if name in parameters] for group in spec.groups]
        self.tensors: Dict[str, torch.Tensor] = {name: parameters[name] for names in self.names for name in names}

    def build(self, scaled: bool, clipped: bool) -> Update:
        parameters = {name: self._input("parameter", name, t.shape, t.dtype) for name, t in self.tensors.items()}
        gradients = {name: self._input("gradient", name, t.shape, t.dtype) for name, t in self.tensors.items()}
        states: Dict[str, Node] = {}
        for flags, names in zip(self.spec.groups, self.names):
            for slot in self.rule.slots(self.spec, flags):
                for name in names:
                    shape, dtype = self._state_format(slot, self.tensors[name])
                    key = f"{slot.prefix}___{name}"
                    states[key] = self._input("state", key, shape, dtype, slot)
        hyper: List[Dict[str, Node]] = []
        for index, flags in enumerate(self.spec.groups):
            wanted = self.rule.hyper(self.spec, flags) if flags.parameters else ()
            hyper.append({name: self._input("hyper", f"{name}_{index}", (), torch.float64) for name in wanted})
        hyper_names = tuple(entry.name for entry in self.inputs if entry.role == "hyper")
        scale = self._input("hyper", "gradient_scale", (), torch.float64) if scaled else None
        limit = self._input("hyper", "max_grad_norm", (), torch.float64) if clipped else None

        if self.tensors:
            self._emit(parameters, self._prepare(gradients, scale, limit), states, hyper)
        form = "fused" if self.fused else "elementwise"
        return Update(self.tape.finish(), tuple(self.inputs), self.spec, form, hyper_names, scaled, clipped)

    def _input(self, role: str, name: str, shape: Any, dtype: torch.dtype, slot: Optional[Slot] = None) -> Node:
        entry = Input(role, name, tuple(shape), dtype, slot)
        node = self.tape.input(role, name)
        node.meta["input"] = entry
        self.inputs.append(entry)
        return node

    def _state_format(self, slot: Slot, tensor: torch.Tensor) -> Tuple[Tuple[int, ...], torch.dtype]:
        if slot.scalar:
            return (), torch.float32
        is_wide = tensor.dtype == torch.float64 and slot.dtype == torch.float32
        return tuple(tensor.shape), torch.float64 if is_wide else slot.dtype

    def _prepare(self, gradients: Dict[str, Node], scale: Optional[Node], limit: Optional[Node]) -> Dict[str, Node]:
        """Gradients in the working type, un-scaled and clipped."""
        tape = self.tape
        names = list(gradients)
        nodes = []
        for name in names:
            node = gradients[name]
            if self._is_direct(name):
                needs_order = self.fused and not self.dense_gradients
                nodes.append(tape.call(aten.contiguous.default, node) if needs_order else node)
            else:
                nodes.append(self._working(node, name))
        if scale is not None:
            if self.fused:
                gradient_ops.scale_in_place(tape, nodes, scale)
            else:
                nodes = gradient_ops.scaled(tape, nodes, scale)
        if limit is not None:
            if self.fused:
                gradient_ops.clip_in_place(tape, nodes, limit)
            else:
                nodes = gradient_ops.clipped(tape, nodes, limit)
        return dict(zip(names, nodes))

    def _is_direct(self, name: str) -> bool:
        """Whether a parameter and everything that belongs to it can be given to the rule as they are."""
        tensor = self.tensors[name]
        if tensor.dtype not in (torch.float32, torch.float64) or self.spec.accum_type != torch.float32:
            return False
        if torch.float16 in (self.spec.first_order_type, self.spec.second_order_type):
            return False
        return tensor.is_contiguous() or not self.fused

    def _working_dtype(self, name: str) -> torch.dtype:
        return torch.float64 if self.tensors[name].dtype == torch.float64 else torch.float32

    def _working(self, node: Node, name: str) -> Node:
        """A contiguous copy in the type of the arithmetic: half is too narrow for an update (1e-8 is 0 in it)."""
        wide = self.tape.call(aten._to_copy.default, node, dtype=self._working_dtype(name))
        return self.tape.call(aten.contiguous.default, wide) if self.fused else wide

    def _emit(self, parameters: Dict[str, Node], gradients: Dict[str, Node], states: Dict[str, Node], hyper: List[Dict[str, Node]]) -> None:
        for index, flags in enumerate(self.spec.groups):
            for dtype in (torch.float32, torch.float64):
                names = [name for name in self.names[index] if self._working_dtype(name) == dtype]
                if names:
                    self._emit_group(flags, names, parameters, gradients, states, hyper[index])

    def _emit_group(
        self,
        flags: GroupSpec,
        names: List[str],
        parameters: Dict[str, Node],
        gradients: Dict[str, Node],
        states: Dict[str, Node],
        hyper: Dict[str, Node],
    ) -> None:
        slots = self.rule.slots(self.spec, flags)
        homes: List[Node] = []
        columns: Dict[str, List[Node]] = {}
        for column, inputs, copied in [("parameter", [parameters[name] for name in names], True)] + [
            (slot.prefix, [states[f"{slot.prefix}___{name}"] for name in names], not slot.scalar) for slot in slots
        ]:
            homes += inputs
            columns[column] = [
                self._working(node, name) if copied and not self._is_direct(name) else node for node, name in zip(inputs, names)
            ]
        group = Group(columns["parameter"], [gradients[name] for name in names], {s.prefix: columns[s.prefix] for s in slots}, hyper)
        (self.rule.fused if self.fused else self.rule.elementwise)(self.tape, self.spec, flags, group)
        results = group.parameters + [node for slot in slots for node in group.states[slot.prefix]]
        for home, result in zip(homes, results):
            if home is not result:
                self.tape.call(aten.copy_.default, home, result)
