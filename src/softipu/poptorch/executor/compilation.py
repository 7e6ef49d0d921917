"""From a module and its first inputs to a program: capture, passes, device memory."""

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import torch
from torch import nn
from torch.fx import Node

from softipu.capture import capture
from softipu.capture._torch_private import FakeTensor
from softipu.capture.context import current
from softipu.capture.listed_ops import unlisted_ops
from softipu.capture.random_ops import seed_random_ops
from softipu.errors import Error
from softipu.graph import Role, Step
from softipu.graph.effects import is_view
from softipu.graph.origin import origin_of
from softipu.passes import run_passes
from softipu.passes.exact.floating_point_checks import FloatingPointChecks
from softipu.passes.graph_pass import GraphPass
from softipu.passes.inexact.half_arithmetic import HalfArithmetic
from softipu.passes.inexact.stochastic_rounding import StochasticRounding
from softipu.passes.pipeline import STANDARD
from softipu.poptorch.blocks.placement import (
    Placement,
    check_number_of_ipus,
    check_pipeline_is_filled,
    check_stages_run_forward,
    place_blocks,
)
from softipu.poptorch.blocks.scope import BlockId, recording
from softipu.poptorch.debugging.anchoring import Anchor, anchor_in_step
from softipu.poptorch.debugging.tensor_names import names_of_step
from softipu.poptorch.enums import CommGroupType, OutputMode
from softipu.poptorch.inputs.input_mismatch import FlatCall, tensor_names, unflatten_call
from softipu.poptorch.inputs.structure import flatten, unflatten
from softipu.poptorch.log import logger
from softipu.poptorch.ops.overlap_rules import marking
from softipu.poptorch.options import Options
from softipu.runtime import BatchShape, OutputRule, Returned

_RETURNED = {
    OutputMode.Final: Returned.FINAL,
    OutputMode.EveryN: Returned.EVERY_N,
    OutputMode.All: Returned.ALL,
    OutputMode.Sum: Returned.SUM,
}
# Layers whose statistics may differ between replicas without Options.broadcastBuffers(False).
_NORMALISATIONS = (nn.modules.batchnorm._NormBase,)


@dataclass(frozen=True)
class Outputs:
    """The structure that a module returns: tensors come from the device or are constants of the host."""

    spec: Any
    constants: Mapping[int, torch.Tensor]
    n_tensors: int

    def build(self, from_device: Sequence[torch.Tensor]) -> Any:
        """The module's own structure around the device's tensors."""
        remaining = iter(from_device)
        return unflatten(self.spec, [self.constants[i] if i in self.constants else next(remaining) for i in range(self.n_tensors)])


def batch_shape(options: Options, *, training: bool) -> BatchShape:
    """How options cut a host batch."""
    return BatchShape(
        n_iterations=options.device_iterations,
        n_accumulated=options.Training.gradient_accumulation if training else 1,
        n_replicas=options.replication_factor,
        input_group_size=options.input_group_size,
        orthogonal_groups=options.input_group_type == CommGroupType.Orthogonal,
    )


def output_rule(options: Options, shape: BatchShape) -> OutputRule:
    """Which results come back.

    Raises:
        Error: EveryN with a period that does not divide the device iterations.
    """
    mode = OutputMode(options.output_mode)
    period = options.output_return_period
    if mode is OutputMode.EveryN and (period > shape.n_iterations or shape.n_iterations % period):
        raise Error(
            f"outputMode(EveryN) has period {period}, which must divide deviceIterations({shape.n_iterations}) and be at most as large. "
            "Change one of the two."
        )
    return OutputRule(_RETURNED[mode], period if mode is OutputMode.EveryN else 1)


@dataclass(frozen=True)
class CompiledStep:
    """A step after all passes.

    Attributes:
        step: its ANCHOR outputs are the values of micro-batches among the anchors, in their order.
        outputs: the structure that the module returns.
        names: of the step's tensors, each with its node as captured.
    """

    step: Step
    outputs: Outputs
    names: Mapping[str, Node]


def compile_step(module: nn.Module, call: FlatCall, micro: Sequence[torch.Tensor], *, training: bool) -> Tuple[Step, Outputs]:
    """The step of ``module`` for micro-batches shaped like ``micro``, the tensors of ``call``, after all passes."""
    compiled = compile_with_options(module, call, micro, Options(), [], training=training)
    return compiled.step, compiled.outputs


def compile_with_options(
    module: nn.Module, call: FlatCall, micro: Sequence[torch.Tensor], options: Options, anchors: Sequence[Anchor], *, training: bool
) -> CompiledStep:
    """As ``compile_step``, with what options ask for of names, anchors, rounding and floating-point checks."""
    found: List[Outputs] = []

    def forward(tensors: List[torch.Tensor]) -> List[torch.Tensor]:
        args, kwargs = unflatten_call(call, tensors)
        marks.begins(tensors, tensor_names(call))
        context = current()
        if context is not None:
            context.strided_groups = bool(options._Popart.options.get("groupNormStridedChannelGrouping"))
        results, out_spec = flatten(module(*args, **kwargs))
        marks.check_results(results)
        constants = {i: t for i, t in enumerate(results) if not isinstance(t, FakeTensor)}
        found.append(Outputs(out_spec, constants, len(results)))
        return [t for i, t in enumerate(results) if i not in constants]

    with recording(), marking() as marks:
        captured = capture(module, forward, micro, training=training)
    marks.check(captured, options)
    warn_about_unlisted_ops(captured)
    names = names_of_step(captured, with_modules=options._module_namescope_enabled)
    rounds = stochastic_rounding(options)
    seeded = seed_random_ops(anchor_in_step(captured, anchors, names), always=rounds)
    passes: List[GraphPass] = list(STANDARD)
    if rounds:
        passes.insert(1 + [p.name for p in passes].index(HalfArithmetic.name), StochasticRounding("seed"))
    if options._Popart.options.get("enableFloatingPointChecks"):
        passes.append(FloatingPointChecks())
    step, _ = run_passes(seeded, passes)
    return CompiledStep(step, found[-1], names)


def stochastic_rounding(options: Options) -> bool:
    """Whether results in half are rounded up or down at random."""
    return bool(options._Popart.options.get("enableStochasticRounding"))


def warn_about_unlisted_ops(step: Step) -> None:
    """One warning that names the ops that run here but are not on PopTorch's list, and the user's lines that call them."""
    found = unlisted_ops(step.graph_module)
    if found:
        lines = "\n".join(f"  {op.name}  {op.line}: {op.line.code}" if op.line else f"  {op.name}" for op in found)
        logger.warning(
            "%d operation%s in this model %s not supported by PopTorch on an IPU (not on its list of supported operations), but run on "
            "the software IPU:\n%s",
            *(len(found), "" if len(found) == 1 else "s", "is" if len(found) == 1 else "are", lines),
        )


def block_order(step: Step) -> List[Optional[BlockId]]:
    """The blocks of a step's forward pass, in the order that they begin; None for ops outside all blocks."""
    blocks: List[Optional[BlockId]] = []
    for node in step.graph_module.graph.nodes:
        origin = origin_of(node)
        block = origin.block
        if node.op == "call_function" and not origin.backward and not is_view(node) and (not blocks or blocks[-1] != block):
            blocks.append(block if isinstance(block, BlockId) else None)
    return blocks


def block_uses(step: Step) -> List[Tuple[BlockId, BlockId]]:
    """Pairs of blocks of the forward pass: the second uses a result of the first. Views belong to what they look at."""
    made_in: Dict[Node, Set[BlockId]] = {}
    found: Dict[Tuple[BlockId, BlockId], None] = {}
    for node in step.graph_module.graph.nodes:
        origin = origin_of(node)
        if node.op != "call_function" or origin.backward:
            continue
        sources = {block for used in node.all_input_nodes for block in made_in.get(used, ())}
        if is_view(node):
            made_in[node] = sources
        elif isinstance(origin.block, BlockId):
            made_in[node] = {origin.block}
            found.update({(source, origin.block): None for source in sources if source != origin.block})
    return list(found)


def place(step: Step, options: Options, shape: BatchShape, *, training: bool) -> Placement:
    """The IPUs of a step's blocks.

    Raises:
        Error: an op outside all blocks, a stage that uses results of a later one, a pipeline that is never full, or too many IPUs.
        AssertionError: a block that the execution strategy does not know.
    """
    placement = place_blocks(block_order(step), options._execution_strategy)
    check_stages_run_forward(placement, block_uses(step))
    check_pipeline_is_filled(placement, training=training, gradient_accumulation=shape.n_accumulated, device_iterations=shape.n_iterations)
    check_number_of_ipus(placement, shape.n_replicas)
    return placement


def n_buffer_copies(module: nn.Module, step: Step, options: Options) -> int:
    """How many copies of the buffers the device needs: one per replica if the step writes any.

    Raises:
        Error: with several replicas, a buffer outside normalisation layers is written and Options.broadcastBuffers is on.
    """
    written = [name for name in step.named_inputs(Role.BUFFER) if step.mutates(Role.BUFFER, name)]
    if options.replication_factor == 1 or not written:
        return 1
    exempt = _normalisation_buffers(module)
    shared = [name for name in written if name not in exempt]
    if shared and options.broadcast_buffers:
        raise Error(
            "PopTorch does not support broadcasting buffers. If your model is able to tolerate buffers becoming out of sync between "
            "replicas, you can disable buffer broadcasting using poptorch.Options.broadcastBuffers(False). "
            f"replicationFactor is {options.replication_factor}, and the step changes {', '.join(shared)}."
        )
    return options.replication_factor


def check_named_buffers(module: nn.Module, options: Options) -> None:
    """Error: Options.updatableNamedBuffers names a buffer that the module does not have."""
    named = options._Popart.options.get("updatableNamedBuffers") or []
    known = dict(module.named_buffers())
    unknown = [name for name in named if name not in known]
    if unknown:
        raise Error(
            f"Options.updatableNamedBuffers names {', '.join(unknown)}, but the buffers of {type(module).__name__} are "
            f"{', '.join(known) or 'none'}."
        )


def _normalisation_buffers(module: nn.Module) -> Dict[str, bool]:
    return {
        f"{prefix}.{name}" if prefix else name: True
        for prefix, submodule in module.named_modules()
        if isinstance(submodule, _NORMALISATIONS)
        for name in submodule._buffers
    }
