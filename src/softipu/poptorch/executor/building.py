"""From a module and a call to a program that can run: captured, placed, its weights on the device, its engine chosen."""

from dataclasses import dataclass
from typing import Dict, Mapping, Optional, Sequence, Union

import torch
from torch import nn
from torch.fx import Node

from softipu.graph import Role, Step
from softipu.poptorch.blocks.placement import Placement
from softipu.poptorch.debugging.anchoring import Anchored, read_anchors
from softipu.poptorch.debugging.placement_log import log_placement
from softipu.poptorch.debugging.tensor_names import TensorNames, names_of_update
from softipu.poptorch.executor import engine_choice
from softipu.poptorch.executor.cache_folder import cache_folder
from softipu.poptorch.executor.compilation import Outputs, compile_with_options, n_buffer_copies, output_rule, place, stochastic_rounding
from softipu.poptorch.executor.device_optimizer import DeviceOptimizer
from softipu.poptorch.inputs.input_mismatch import FlatCall
from softipu.poptorch.options import Options
from softipu.poptorch.weights.host_weights import host_weights
from softipu.poptorch.weights.loss_scaling import FINAL_SCALE
from softipu.poptorch.weights.replica_grouping import one_group
from softipu.poptorch.weights.rounded_updates import rounding_stochastically
from softipu.runtime import BatchShape, DeviceMemory, Engine, EngineSettings, Program, UpdateProgram, batched
from softipu.runtime.anchors import UpdateValue
from softipu.runtime.replica_groups import ReplicaGroups


@dataclass(frozen=True)
class Source:
    """What a program is made from.

    Attributes:
        micro: the inputs of one micro-batch, as the device takes them.
        groups: of parameters that differ between replicas, by name.
        seed: of the device's random numbers.
    """

    module: nn.Module
    call: FlatCall
    micro: Sequence[torch.Tensor]
    options: Options
    shape: BatchShape
    groups: Dict[str, ReplicaGroups]
    seed: int


@dataclass(frozen=True)
class Built:
    """A program, and how to read what it returns."""

    program: Program
    outputs: Outputs
    placement: Placement
    names: TensorNames
    anchored: Anchored


def build(
    source: Source, optimizer: Optional[DeviceOptimizer], first_state: Optional[Dict[str, torch.Tensor]], choice: engine_choice.EngineChoice
) -> Built:
    """The program of one call's shapes.

    Args:
        optimizer: in training.
        first_state: the optimizer's, by name, if not its own beginning.
        choice: which engine runs it.

    Raises:
        Error, AssertionError: something that an IPU cannot do, or blocks and options that do not go together.
    """
    options, shape = source.options, source.shape
    anchors = read_anchors(options)
    with one_group(source.module, source.groups):
        compiled = compile_with_options(source.module, source.call, source.micro, options, anchors, training=optimizer is not None)
    step = compiled.step
    placement = place(step, options, shape, training=optimizer is not None)
    log_placement(placement, compiled.names, options._execution_strategy)
    memory = _upload(source, step)
    gradients = [v for v in step.outputs if v.role is Role.GRADIENT]
    accumulation = None
    if optimizer is not None:
        accumulation = optimizer.accumulation(shape, [v.dtype for v in gradients], is_grouped=bool(source.groups))
    automatic = optimizer.automatic if optimizer is not None else None
    is_observed = bool(anchors) or automatic is not None
    at_once = None if is_observed or accumulation is not None or source.groups else batched(step, shape)

    def make(engine: Engine) -> Program:
        update = None
        if optimizer is not None:
            optimizer.build({n: memory.parameters[n] for n in step.named_outputs(Role.GRADIENT)}, engine.update_form)
            memory.optimizer_state = optimizer.first_state(memory.parameters, first_state)
            update = update_program(optimizer, options, memory)
        return Program(step, update, shape, output_rule(options, shape), memory, engine, at_once, accumulation)

    settings = EngineSettings(cache_folder(options), bool(options._show_compilation_progress_bar))
    program = engine_choice.build(choice, step, shape, settings, make)
    names = _names(compiled.names, [v.name for v in gradients], optimizer, memory)
    anchored = Anchored(anchors, names, shape, [v.name for v in gradients])
    if anchors:
        program.observers.append(anchored.recorder)
    if automatic is not None:
        program.observers.append(automatic)
    return Built(program, compiled.outputs, placement, names, anchored)


def update_program(optimizer: DeviceOptimizer, options: Options, memory: DeviceMemory) -> UpdateProgram:
    """The optimizer's update of the weights in ``memory``, rounded as the options ask."""
    update = optimizer.program()
    return rounding_stochastically(update, memory.stream) if stochastic_rounding(options) else update


def _upload(source: Source, step: Step) -> DeviceMemory:
    host = host_weights(source.module)
    memory = DeviceMemory.upload(host.parameters, host.buffers, n_buffer_copies(source.module, step, source.options), source.seed)
    memory.groups = dict(source.groups)
    return memory


def _names(
    of_step: Mapping[str, Node], gradients: Sequence[str], optimizer: Optional[DeviceOptimizer], memory: DeviceMemory
) -> TensorNames:
    if optimizer is None:
        return TensorNames({**of_step}, ())
    of_update: Dict[str, Union[Node, UpdateValue]] = {**of_step, **names_of_update(gradients, [*memory.optimizer_state])}
    if optimizer.automatic is not None:
        of_update[FINAL_SCALE] = UpdateValue("number", FINAL_SCALE)
    return TensorNames(of_update, optimizer.number_names())
