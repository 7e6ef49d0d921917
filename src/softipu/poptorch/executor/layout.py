"""An executor's step, optimizer and layout as the cost model takes them: known after compilation, or captured without one."""

from dataclasses import dataclass, replace
from typing import Any, FrozenSet, List, Optional, Tuple

from torch import nn

from softipu.capture.listed_ops import unlisted_ops
from softipu.capture.update import OptimizerSpec
from softipu.graph import Step
from softipu.graph.effects import is_view
from softipu.graph.origin import KEY, Origin, origin_of
from softipu.poptorch.blocks.placement import Placement, place_blocks
from softipu.poptorch.blocks.strategies import ShardedExecution
from softipu.poptorch.executor.compilation import block_order, compile_step
from softipu.poptorch.executor.executor import PoplarExecutor
from softipu.poptorch.inputs import host_inputs
from softipu.poptorch.options import Options
from softipu.report.plan import Partials, Plan, Schedule, Stage

_COUNTED = "paths counted from"
_HALF = ("half", "float16")


@dataclass(frozen=True)
class Layout:
    """What an executor runs.

    Attributes:
        step: of one micro-batch.
        optimizer: in training.
        plan: blocks as stages, and the options that a plan knows.
        unlisted: ops that PopTorch does not list as supported, each with the line that calls it.
        containers: paths of modules that are never called, such as lists of modules.
    """

    step: Step
    optimizer: Optional[OptimizerSpec]
    plan: Plan
    unlisted: Tuple[str, ...] = ()
    containers: FrozenSet[str] = frozenset()


def layout_of(executor: PoplarExecutor, micro_batch: int, *, root: str = "") -> Layout:
    """Of a compiled executor. Error: not compiled.

    Args:
        micro_batch: items in one, which the tensors alone do not tell.
        root: path of the user's module in the executor's; paths in the layout are counted from it.
    """
    return _layout(executor, executor.step, executor._placement, micro_batch, root)


def capture_layout(executor: PoplarExecutor, micro_batch: int, *micro: Any, root: str = "") -> Layout:
    """Of an executor for the inputs of one micro-batch, without compiling it: nothing is put on a device.

    Raises:
        Error, AssertionError: as ``compile`` does.
    """
    given, call = executor._flatten(micro, {})
    used = [host_inputs.on_device(t) for t in given]
    step, _ = compile_step(executor.model, call, used, training=executor._training)
    # Not `place`: a pipeline that is never full does not run, but has a price.
    placement = place_blocks(block_order(step), executor.options._execution_strategy)
    return _layout(executor, step, placement, micro_batch, root)


def _count_from(step: Step, root: str) -> None:
    """Counts paths of modules from the one at ``root``, once."""
    meta = step.graph_module.meta
    if not root or meta.get(_COUNTED) == root:
        return
    meta[_COUNTED] = root
    for node in step.graph_module.graph.nodes:
        origin = node.meta.get(KEY)
        if origin is not None and origin.inside(root) and origin.module:
            node.meta[KEY] = replace(origin, module=origin.module[len(root) + 1 :])


def _never_called(module: nn.Module, root: str) -> FrozenSet[str]:
    """Paths of modules without a forward, such as lists of modules: no block can begin at one."""
    start = f"{root}." if root else ""
    found = (path for path, part in module.named_modules() if type(part).forward is nn.Module.forward)
    return frozenset(path[len(start) :] for path in found if path.startswith(start))


def _layout(executor: PoplarExecutor, step: Step, placement: Placement, micro_batch: int, root: str) -> Layout:
    _count_from(step, root)
    optimizer = executor._optimizer.spec if executor._optimizer is not None else None
    options, shape = executor.options, executor._shape
    containers = _never_called(executor.model, root)
    sharded = isinstance(options._execution_strategy, ShardedExecution)
    pipelined = optimizer is not None and not sharded and len({place.ipu for place in placement.places.values()}) > 1
    stages = _stages(step, placement, containers, recompute=_recomputes(options, pipelined=pipelined))
    locations = options.TensorLocations
    optimizer_location = _location(locations, "location_optimizer")
    plan = Plan(
        stages=stages,
        micro_batch=micro_batch,
        gradient_accumulation=shape.n_accumulated,
        replicas=shape.n_replicas,
        device_iterations=shape.n_iterations,
        available_memory_proportion=_proportions(options, 1 + max(stage.ipu for stage in stages)),
        partials=Partials.HALF if options._Popart.options.get("partialsTypeMatMuls") in _HALF else Partials.FLOAT,
        optimizer_state_off_chip=optimizer_location.get("onChip") == 0,
        replicated_tensor_sharding=bool(optimizer_location.get("useReplicatedTensorSharding")),
        n_io_tiles=locations.n_io_tiles,
        schedule=Schedule.SHARDED if sharded else Schedule.PIPELINED,
    )
    unlisted = tuple(f"{op.name} ({op.line})" if op.line else op.name for op in unlisted_ops(step.graph_module))
    return Layout(step, optimizer, plan, unlisted, containers)


def _location(locations: Any, name: str) -> Any:
    return getattr(locations, name) if locations.exists(name) else {}


def _recomputes(options: Options, *, pipelined: bool) -> bool:
    """PopART's autoRecomputation: 0 none, else which rule. Where it is not set, PopTorch recomputes in pipelines of several IPUs."""
    return bool(options._Popart.options.get("autoRecomputation", pipelined))


def _proportions(options: Options, n_ipus: int) -> Tuple[float, ...]:
    """Per IPU as given, with PopLibs' own 0.6 for the others."""
    given = options.available_memory_proportion
    return tuple(float(given.get(ipu, 0.6)) for ipu in range(n_ipus)) if given else (0.6,)


def _stages(step: Step, placement: Placement, containers: FrozenSet[str], *, recompute: bool) -> Tuple[Stage, ...]:
    """Blocks as stages: one begins where the next op is of another stage or IPU."""
    forward: List[Origin] = []
    for node in step.graph_module.graph.nodes:
        if node.op == "call_function" and not origin_of(node).backward and not is_view(node):
            forward.append(origin_of(node))
    found: List[Stage] = []
    last = None
    for index, origin in enumerate(forward):
        place_of = placement.places.get(origin.block)  # type: ignore[call-overload]
        here = (place_of.stage, place_of.ipu) if place_of is not None else (0, 0)
        if here == last:
            continue
        begin = "" if not found else _beginning(forward, index, {stage.begin for stage in found} | containers)
        if begin is not None:
            found.append(Stage(begin, here[1], recompute))
            last = here
    return _without_gaps(found or [Stage("", 0, recompute)])


def _beginning(forward: List[Origin], index: int, taken: Any) -> Optional[str]:
    """The outermost module whose first op is this one; None where the op is in the midst of all its modules."""
    path = forward[index].module
    best = None
    while path:
        first = next(i for i, origin in enumerate(forward) if origin.inside(path))
        if first == index and path not in taken:
            best = path
        path = path.rpartition(".")[0]
    return best


def _without_gaps(stages: List[Stage]) -> Tuple[Stage, ...]:
    """IPUs numbered without gaps: blocks may leave the first ones unused."""
    used = sorted({stage.ipu for stage in stages})
    return tuple(Stage(stage.begin, used.index(stage.ipu), stage.recompute) for stage in stages)
