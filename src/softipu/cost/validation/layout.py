"""From the configuration of a published run to a plan and an optimizer."""

from typing import Any, List, Mapping, Optional, Tuple

import torch

from softipu.capture.update import GroupSpec, OptimizerSpec
from softipu.cost.validation.families import Model
from softipu.cost.validation.published import PublishedRun
from softipu.errors import Error
from softipu.report.plan import Partials, Plan, Schedule, Stage

_RULES = {
    "SGD": ("SGD", False),
    "SGD-momentum": ("SGD", True),
    "Adam": ("Adam", False),
    "AdamW": ("AdamW", False),
    "LAMB": ("LAMB", False),
    "RMSprop": ("RMSprop", False),
    "RMSprop-momentum": ("RMSprop", True),
}
_USUAL_PROPORTION = 0.15
# Where a run says nothing.
ASSUMPTIONS = (
    "accumulators and first momenta of half models are half, second momenta float, as in graphcore/examples",
    "where no split is given and a replica has several IPUs, layers are spread evenly",
    "where no available memory proportion is given, it is 0.15, the median of the published configurations that give one",
    "partial sums are float where the run does not say half",
    "host transfers do not overlap with compute",
)


def precision(run: PublishedRun) -> torch.dtype:
    """Type of weights and activations.

    Raises:
        Error: neither fp16 nor fp32.
    """
    name = run.run.get("precision", "fp16")
    known = {"fp16": torch.float16, "fp32": torch.float32}
    if name not in known:
        raise Error(f"Run {run.id} has precision {name!r}; known are {', '.join(known)}.")
    return known[name]


def plan_of(run: PublishedRun, model: Model) -> Plan:
    """The layout of a run.

    Raises:
        Error: a split that does not fit the number of IPUs or layers; names the run.
    """
    given = run.run
    n_ipus = int(given["ipus_per_replica"])
    recompute = given.get("recompute") or "none"
    checkpoints = {"every-layer": model.layers, "residual-adds": model.residual_adds or model.layers}.get(recompute, ())
    return Plan(
        stages=_stages(run, model, n_ipus, recompute=run.training and recompute != "none"),
        micro_batch=int(given["micro_batch"]),
        gradient_accumulation=int(given.get("gradient_accumulation") or 1) if run.training else 1,
        replicas=int(given["replicas"]),
        device_iterations=int(given.get("device_iterations") or 1),
        checkpoints=checkpoints if run.training else (),
        available_memory_proportion=_proportions(given, n_ipus),
        partials=Partials.HALF if given.get("partials", "fp32") == "fp16" else Partials.FLOAT,
        optimizer_state_off_chip=given.get("optimizer_state") == "off-chip",
        replicated_tensor_sharding=bool(given.get("replicated_tensor_sharding")),
        serialized=tuple((path, int(given["embedding_serialization"])) for path in model.serialized)
        if int(given.get("embedding_serialization") or 1) > 1
        else (),
        n_io_tiles=int(given.get("io_tiles") or 0),
        schedule=Schedule.PIPELINED,
    )


def optimizer_of(run: PublishedRun, names: Tuple[str, ...]) -> Optional[OptimizerSpec]:
    """The optimizer of a run for the weights of these names; None for inference.

    Raises:
        Error: an unknown optimizer.
    """
    if not run.training:
        return None
    name = run.run.get("optimizer") or "SGD"
    if name not in _RULES:
        raise Error(f"Run {run.id} has the optimizer {name!r}; known are {', '.join(_RULES)}.")
    rule, momentum = _RULES[name]
    half = precision(run) is torch.float16
    group = GroupSpec(names, tuple(range(len(names))), weight_decay=True, momentum=momentum, decoupled=rule == "AdamW")
    narrow = torch.float16 if half else torch.float32
    return OptimizerSpec(rule, (group,), accum_type=narrow, first_order_type=narrow, use_combined_accum=rule == "SGD" and momentum)


def _proportions(given: Mapping[str, Any], n_ipus: int) -> Tuple[float, ...]:
    value = given.get("available_memory_proportion")
    if value is None:
        return (_USUAL_PROPORTION,)
    values = tuple(float(v) for v in value) if isinstance(value, (list, tuple)) else (float(value),)
    return values if len(values) in (1, n_ipus) else values[:1]


def _stages(run: PublishedRun, model: Model, n_ipus: int, *, recompute: bool) -> Tuple[Stage, ...]:
    if n_ipus == 1:
        return (Stage("", 0, recompute),)
    names = run.run.get("split_at")
    begins: List[Tuple[str, int]] = _named(run, model, names) if names else _counted(run, model, n_ipus)
    stages = [Stage("", 0, recompute), *(Stage(path, ipu, recompute) for path, ipu in begins)]
    if model.tied and model.head:
        stages.append(Stage(model.head, 0, recompute))
    if len({stage.ipu for stage in stages}) != n_ipus:
        raise Error(f"The split of run {run.id} uses {len({s.ipu for s in stages})} IPUs, but a replica has {n_ipus}.")
    return tuple(stages)


def _named(run: PublishedRun, model: Model, names: List[str]) -> List[Tuple[str, int]]:
    known = dict(model.begins)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Error(f"Run {run.id} splits at {', '.join(map(repr, unknown))}; the model has {', '.join(known) or 'no names for splits'}.")
    return [(known[name], ipu) for ipu, name in enumerate(names, 1)]


def _counted(run: PublishedRun, model: Model, n_ipus: int) -> List[Tuple[str, int]]:
    """Where the layers of each IPU begin; half a layer begins at its second half."""
    counts = run.run.get("layers_per_ipu")
    if counts is None:
        share = len(model.layers) / n_ipus
        counts = [round(share * (i + 1)) - round(share * i) for i in range(n_ipus)]
    if len(counts) != n_ipus or abs(sum(counts) - len(model.layers)) > 1e-6:
        raise Error(f"Run {run.id} has layers_per_ipu {counts}; give {n_ipus} numbers that add up to {len(model.layers)}.")
    begins = []
    done = float(counts[0])
    for ipu, count in enumerate(counts[1:], 1):
        layer, rest = int(done), done - int(done)
        if layer >= len(model.layers):
            raise Error(f"Run {run.id} leaves no layer for IPU {ipu}: layers_per_ipu is {counts}.")
        begins.append((model.layers[layer] if rest < 0.25 else model.halves[layer] if model.halves else model.layers[layer], ipu))
        done += count
    return begins
