"""Runs a module's forward (and backward) once on fake tensors and keeps the ATen graph."""

import logging
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch
from torch import nn

import softipu.capture.fake_kernels  # noqa: F401  (registers the kernels)
from softipu.capture._torch_private import FakeTensorMode, disable_torch_function, new_fake_mode, trace
from softipu.capture.bodies import refuse_leaked_values
from softipu.capture.checkpoints import without_checkpoints
from softipu.capture.context import CaptureContext, capturing
from softipu.capture.half_attention import attention_as_given
from softipu.capture.leaks import refuse_leaks, values_before
from softipu.capture.losses import final_loss
from softipu.capture.module_trail import ModuleTrail
from softipu.capture.shared_results import join_shared_results
from softipu.capture.static_forms import without_value_checks
from softipu.capture.static_layers import static_layers
from softipu.capture.step_rules import StepRules
from softipu.capture.user_code import explain
from softipu.capture.weights_in_place import replaced, unique_buffers, unique_parameters
from softipu.errors import CaptureError, Error
from softipu.graph import Role, Step, Value
from softipu.graph.aliases import node_storage
from softipu.graph.effects import written_arguments

aten = torch.ops.aten
_log = logging.getLogger("softipu")


def _zeros(size: Sequence[int], *, dtype: Optional[torch.dtype] = None, **where: Any) -> torch.Tensor:
    """The gradient of a function that has none (sgn): PyTorch's tensor of zeros without memory can be written by nobody."""
    return torch.zeros(size, dtype=dtype)


_AS_OTHERS: Dict[Any, Callable[..., Any]] = {aten._efficientzerotensor.default: _zeros}


def capture(
    module: nn.Module, forward: Callable[[List[torch.Tensor]], List[torch.Tensor]], inputs: Sequence[torch.Tensor], *, training: bool
) -> Step:
    """The step of one micro-batch.

    Args:
        module: holds the parameters and buffers; not changed.
        forward: calls ``module`` on the tensors of one micro-batch and returns the output tensors.
        inputs: one micro-batch, for shapes and dtypes only.
        training: whether to add the backward pass, from the loss that forward marks to every parameter that it uses.

    Raises:
        CaptureError: the forward does something that an IPU cannot do; with the user's file and line.
        Error: no loss, or several independent ones.
    """
    recorder = _Recorder(module, forward, training)
    try:
        graph_module = recorder.trace(inputs)
    except Exception as error:
        explained = explain(error)
        if explained is None:
            raise
        raise explained from error
    return recorder.finish(graph_module)


class _Recorder:
    """One capture: the fake tensors, and what became of them."""

    def __init__(self, module: nn.Module, forward: Callable[[List[torch.Tensor]], List[torch.Tensor]], training: bool) -> None:
        self.module, self.forward, self.training = module, forward, training
        self.parameters = unique_parameters(module)
        self.buffers = unique_buffers(module)
        self.gradient_names: List[str] = []
        self.n_outputs = 0
        self.fakes: List[Tuple[Value, torch.Tensor]] = []

    def trace(self, inputs: Sequence[torch.Tensor]) -> torch.fx.GraphModule:
        mode = new_fake_mode()
        groups = (
            (Role.PARAMETER, list(self.parameters.items())),
            (Role.BUFFER, list(self.buffers.items())),
            (Role.INPUT, [(str(i), t) for i, t in enumerate(inputs)]),
        )
        for role, named in groups:
            for name, tensor in named:
                self.fakes.append((Value(role, name, tuple(tensor.shape), tensor.dtype), _fake(mode, tensor)))
        if self.training:
            scale = mode.from_tensor(torch.ones(()))
            self.fakes.append((Value(Role.LOSS_SCALE, "", (), torch.float32), scale))
        before = values_before(self.module)
        try:
            # Anomaly detection looks at values after every backward op, and there are none yet.
            with torch.autograd.set_detect_anomaly(False), attention_as_given():
                graph_module = trace(self._run, mode, *[fake for _, fake in self.fakes], decompositions=_AS_OTHERS)
        finally:
            leaks = before.changed()
        refuse_leaks(leaks)
        return graph_module

    def _run(self, *traced: torch.Tensor) -> List[torch.Tensor]:
        by_role: Dict[Role, List[torch.Tensor]] = {role: [] for role in Role}
        for (value, _), tensor in zip(self.fakes, traced):
            by_role[value.role].append(tensor)
        owners = list(self.parameters.values()) + list(self.buffers.values())
        stand_ins = by_role[Role.PARAMETER] + by_role[Role.BUFFER]
        swap = {id(owner): stand_in for owner, stand_in in zip(owners, stand_ins)}
        trail = ModuleTrail(self.module)
        outputs: List[torch.Tensor] = []
        with capturing(training=self.training) as context:
            own = {id(stand_in): owner for owner, stand_in in zip(owners, stand_ins)}
            context.with_own_weights = lambda: replaced(self.module, own)
            context.here = lambda: trail.path
            context.on_block = lambda block: trail.enter_block(block, context.recent)
            with trail.forward(outputs), replaced(self.module, swap), self._rules(context):
                outputs.extend(self.forward(by_role[Role.INPUT]))
                self._check_registries(swap)
                refuse_leaked_values(outputs)
            self.n_outputs = len(outputs)
            if not self.training:
                return outputs
            loss = final_loss(context.losses)
            trail.claim(loss)
            with trail.backward(), replaced(self.module, swap):  # a backward of the user may call modules again
                gradients = self._gradients(loss, by_role[Role.PARAMETER], by_role[Role.LOSS_SCALE][0])
        return outputs + gradients

    @contextmanager
    def _rules(self, context: CaptureContext) -> Iterator[None]:
        """PyTorch and its layers as the forward of an IPU has them."""
        gradients = torch.enable_grad() if self.training else torch.no_grad()
        with without_value_checks(), static_layers(), without_checkpoints(), StepRules(context), gradients:
            yield

    def _gradients(self, loss: torch.Tensor, parameters: List[torch.Tensor], scale: torch.Tensor) -> List[torch.Tensor]:
        trainable = [(name, p) for name, p in zip(self.parameters, parameters) if p.requires_grad]
        if not trainable or not loss.requires_grad:
            _log.warning(
                "softipu: the loss does not depend on any trainable parameter, so no weight will change. "
                "Check for .detach(), torch.no_grad() and requires_grad=False, or use poptorch.inferenceModel."
            )
            return []
        seed = scale.to(loss.dtype).expand(loss.shape)
        found = torch.autograd.grad([loss], [p for _, p in trainable], [seed], allow_unused=True)
        kept = []
        _refuse_other_backwards(trainable)
        for (name, parameter), gradient in zip(trainable, found):
            if gradient is not None:
                self.gradient_names.append(name)
                kept.append(_in_layout_of(gradient, parameter))
        return kept

    def _check_registries(self, swap: Dict[int, torch.Tensor]) -> None:
        expected = {id(t) for t in swap.values()}
        owners = {name: swap[id(t)] for name, t in [*self.parameters.items(), *self.buffers.items()]}
        remaining = set()
        for prefix, submodule in self.module.named_modules():
            for kind, registry in (("Parameter", submodule._parameters), ("Buffer", submodule._buffers)):
                for name, tensor in registry.items():
                    full = f"{prefix}.{name}" if prefix else name
                    remaining.add(full)
                    if tensor is not None and id(tensor) not in expected:
                        raise Error(
                            f"{kind} {full} is reassigned within the model when calling the forward method. This is not supported. "
                            f"Consider using self.{full}.copy_(src) to copy data from a source tensor, where src is the name of the "
                            "source tensor."
                        )
        for full in owners:
            if full not in remaining:
                kind = "Parameter" if full in self.parameters else "Buffer"
                raise Error(f"{kind} {full} is removed from the model when calling the forward method. Leave it, or remove it before.")

    def finish(self, graph_module: torch.fx.GraphModule) -> Step:
        join_shared_results(graph_module)
        values = [value for value, _ in self.fakes]
        placeholders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
        (output,) = [n for n in graph_module.graph.nodes if n.op == "output"]
        returned = list(output.args[0])
        inputs = {node_storage(node): value for node, value in zip(placeholders, values)}
        constants = {node_storage(n) for n in graph_module.graph.nodes if n.op == "get_attr"}
        mutated: Set[str] = set()
        written: List[torch.fx.Node] = []
        for node in graph_module.graph.nodes:
            for target in written_arguments(node):
                storage = node_storage(target)
                if storage in inputs:
                    mutated.add(f"{inputs[storage].role.value}.{inputs[storage].name}")
                elif storage in constants:
                    written.append(target)
        for target in written:
            _drop_unread_constant(graph_module.graph, target)
        _separate_gradients(graph_module, output, self.n_outputs)
        names = [str(i) for i in range(self.n_outputs)] + self.gradient_names
        outputs = []
        for i, (name, node) in enumerate(zip(names, output.args[0])):
            fake = node.meta["val"]
            role = Role.OUTPUT if i < self.n_outputs else Role.GRADIENT
            outputs.append(Value(role, name, tuple(fake.shape), fake.dtype))
        assert len(returned) == len(outputs)
        graph_module.recompile()
        return Step(graph_module, tuple(values), tuple(outputs), frozenset(mutated), self.training)


def _fake(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor
    with disable_torch_function():  # a wrapped parameter must not look at the device, and its class is not PyTorch's own
        if tensor.is_meta:  # a model without weights is captured as one on the device
            with mode:
                made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
        else:
            made = mode.from_tensor(tensor.detach())
        made.requires_grad_(tensor.requires_grad)
    return made


def _in_layout_of(gradient: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    if gradient.dtype != parameter.dtype:
        gradient = gradient.to(parameter.dtype)
    if gradient.stride() != parameter.stride() and parameter.is_contiguous():
        return gradient.clone(memory_format=torch.contiguous_format)
    if gradient.stride() != parameter.stride():
        return torch.empty_like(parameter).copy_(gradient)
    return gradient


def _drop_unread_constant(graph: torch.fx.Graph, written: torch.fx.Node) -> None:
    """Takes out a constant that is only written to. CaptureError: something reads what was written."""
    own = [node for node in graph.nodes if node.op == "get_attr" and node.target == written.target]
    writes = list(dict.fromkeys(user for node in own for user in node.users))
    if written.op != "get_attr" or any(write.users or not set(written_arguments(write)) & set(own) for write in writes):
        raise CaptureError(
            "The step changes in place a tensor that is neither a buffer nor an input; on an IPU it is a constant of the program. "
            "Register it: self.register_buffer(name, tensor)."
        )
    for node in [*writes, *own]:
        graph.erase_node(node)
    _log.warning(
        "softipu: the step changes in place a tensor that is neither a buffer nor an input, and that nothing reads: on an IPU the change "
        "is lost. To keep it: self.register_buffer(name, tensor)."
    )


def _refuse_other_backwards(parameters: List[Tuple[str, torch.Tensor]]) -> None:
    names = [name for name, parameter in parameters if parameter.grad is not None]
    if names:
        raise CaptureError(
            f"backward() is called inside the step and adds to the gradients of {', '.join(names[:5])}{' ...' if names[5:] else ''}. "
            "An IPU computes one backward pass, from the loss that the step returns. Return the loss and leave backward() out, and in the "
            "backward of a torch.autograd.Function use torch.autograd.grad in its place."
        )


def _separate_gradients(graph_module: torch.fx.GraphModule, output: Any, n_outputs: int) -> None:
    """Clones a gradient that shares memory with another returned value or an input: accumulation and update write in place."""
    graph = graph_module.graph
    taken = {node_storage(n) for n in graph.nodes if n.op in ("placeholder", "get_attr")}
    returned = list(output.args[0])
    taken.update(node_storage(n) for n in returned[:n_outputs])
    for i in range(n_outputs, len(returned)):
        node = returned[i]
        if node_storage(node) in taken:
            with graph.inserting_before(output):
                copy = graph.call_function(aten.clone.default, (node,))
            copy.meta["val"] = node.meta["val"].clone()
            returned[i] = copy
        taken.add(node_storage(returned[i]))
    output.args = (returned,)
