"""What becomes of each option on a software IPU: honoured, accepted without effect, or in need of hardware."""

import enum
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, Iterator, Tuple

from softipu.poptorch.blocks.strategies import PipelinedExecution
from softipu.poptorch.log import logger
from softipu.poptorch.options import session_options

if TYPE_CHECKING:
    from softipu.poptorch.options.model_options import Options


class OptionEffect(enum.Enum):
    """What a software IPU makes of an option."""

    HONOURED = "honoured"
    NO_EFFECT = "accepted but without effect in software"
    NEEDS_HARDWARE = "needs hardware"


@dataclass(frozen=True)
class OptionReport:
    """One option that differs from its default.

    Attributes:
        option: the setter, as a program calls it.
        value: the stored value.
        effect: what becomes of it.
        why: the reason, in a few words.
    """

    option: str
    value: Any
    effect: OptionEffect
    why: str


_HONOURED = OptionEffect.HONOURED
_NONE = OptionEffect.NO_EFFECT
_HARDWARE = OptionEffect.NEEDS_HARDWARE
_MEMORY = "changes memory and speed on hardware, not values"

OPTIONS: Dict[str, Tuple[str, OptionEffect, str]] = {
    "device_iterations": ("deviceIterations", _HONOURED, "part of the host batch"),
    "replication_factor": ("replicationFactor", _HONOURED, "part of the host batch"),
    "input_group_size": ("inputReplicaGrouping", _HONOURED, "part of the host batch"),
    "input_group_type": ("inputReplicaGrouping", _HONOURED, "part of the host batch"),
    "output_mode": ("outputMode", _HONOURED, "chooses the results"),
    "output_return_period": ("outputMode", _HONOURED, "chooses the results"),
    "anchored_tensors": ("anchorTensor", _HONOURED, "kept for getAnchoredTensor"),
    "broadcast_buffers": ("broadcastBuffers", _HONOURED, "False gives every replica its own buffers"),
    "random_seed": ("randomSeed", _HONOURED, "seeds host and device"),
    "connection_type": ("connectionType", _HONOURED, "Never refuses to run"),
    "model_name": ("modelName", _NONE, "names profiles, which are for hardware only"),
    "max_repeat_logs": ("maxRepeatLogs", _NONE, "the software IPU does not repeat log lines"),
    "log_dir": ("logDir", _NONE, "the software IPU writes no log files"),
    "sync_pattern": ("syncPattern", _NONE, "software IPUs do not wait for each other"),
    "auto_round_num_ipus": ("autoRoundNumIPUs", _NONE, "any number of software IPUs can be had"),
    "available_memory_proportion": ("setAvailableMemoryProportion", _NONE, _MEMORY),
    "ipu_id": ("useIpuId", _NONE, "software IPUs have no ids"),
    "ipu_version": ("useOfflineIpuTarget", _NONE, "one executable fits every version"),
}
"""Stored name of an option -> setter, effect, reason."""

TRAINING: Dict[str, Tuple[str, OptionEffect, str]] = {
    "gradient_accumulation": ("Training.gradientAccumulation", _HONOURED, "part of the host batch"),
    "accumulation_and_replication_reduction_type": (
        "Training.accumulationAndReplicationReductionType",
        _HONOURED,
        "scales the gradients",
    ),
    "meanAccumulationAndReplicationReductionStrategy": (
        "Training.setMeanAccumulationAndReplicationReductionStrategy",
        _NONE,
        "the result differs by rounding only; float16 accumulators keep running means",
    ),
}

POPART: Dict[str, Tuple[str, OptionEffect, str]] = {
    "updatableNamedBuffers": ("updatableNamedBuffers", _HONOURED, "uploaded by copyNamedBuffersToDevice"),
    "enableFloatingPointChecks": ("Precision.enableFloatingPointExceptions", _HONOURED, "every op of the step is checked"),
    "enableStochasticRounding": (
        "Precision.enableStochasticRounding",
        _HONOURED,
        "float16 results are rounded by the device's random stream",
    ),
    "partialsTypeMatMuls": ("Precision.setPartialsType", _NONE, "products accumulate in float32, also where half is asked for"),
    "convolutionOptions": ("convolution options", _NONE, _MEMORY),
    "automaticLossScalingSettings.enabled": (
        "Training.setAutomaticLossScaling",
        _HONOURED,
        "the loss scale follows the float16 gradients, once for each call",
    ),
    "groupNormStridedChannelGrouping": ("_Popart.set", _HONOURED, "a group of GroupNorm is every n-th channel"),
    "enableStableNorm": ("enableStableNorm", _HONOURED, "norms are computed in two passes anyway"),
    "syntheticDataMode": ("enableSyntheticData", _HONOURED, "the inputs are made up"),
    "cachePath": ("enableExecutableCaching", _HONOURED, "the compiled engine keeps its programs there; the interpreter has none"),
    "enableEngineCaching": ("enableExecutableCaching", _HONOURED, "the compiled engine keeps its programs there; the interpreter has none"),
    "instrumentWithHardwareCycleCounter": ("logCycleCount", _HARDWARE, "software IPUs have no cycle counter"),
    "engineOptions": ("engine options and enableProfiling", _NONE, "there is no Poplar engine to profile"),
}
"""PopART's name -> setter, effect, reason; all other names are compiler switches without effect."""

PRIVATE: Dict[str, Tuple[str, Any, OptionEffect, str]] = {
    "_relax_optimizer_checks": ("relaxOptimizerAttributesChecks", False, _HONOURED, "unexpected attributes go to the debug log"),
    "_show_compilation_progress_bar": ("showCompilationProgressBar", True, _HONOURED, "False also drops compilationTime"),
    "_module_namescope_enabled": ("disableModuleNamescope", True, _HONOURED, "names of tensors leave the modules out"),
}
"""Attribute -> setter, default, effect, reason."""


def report(options: "Options") -> Tuple[OptionReport, ...]:
    """One entry for every option that differs from its default, in the order of the groups."""
    return tuple(_entries(options))


def _entries(options: "Options") -> Iterator[OptionReport]:
    for name, value in options._changed().items():
        if name == "use_model":
            effect = _HONOURED if value else _HARDWARE
            yield OptionReport("useIpuModel", value, effect, "this is a software IPU")
        else:
            setter, effect, why = OPTIONS.get(name, (name, _NONE, "unknown to the software IPU"))
            yield OptionReport(setter, value, effect, why)
    for name, (setter, default, effect, why) in PRIVATE.items():
        if getattr(options, name) != default:
            yield OptionReport(setter, getattr(options, name), effect, why)
    strategy = options._execution_strategy
    if repr(strategy) != repr(PipelinedExecution()):
        honoured = isinstance(strategy, PipelinedExecution)
        why = "gives blocks their stages" if honoured else "phases change memory on hardware, not values"
        yield OptionReport("setExecutionStrategy", strategy, _HONOURED if honoured else _NONE, why)
    for name, value in options.Training._changed().items():
        yield OptionReport(TRAINING[name][0], value, *TRAINING[name][1:])
    for name, value in options.TensorLocations._changed().items():
        yield OptionReport(f"TensorLocations.{name}", value, _NONE, _MEMORY)
    for name, value in options.Distributed._changed().items():
        yield OptionReport(f"Distributed.{name}", value, _HONOURED, "parts the dataset between processes")
    for name, value in options._Popart._changed().items():
        if name in POPART and value in (False, 0):
            continue  # switched off, which is where PopART starts
        switch = (f"_Popart.set({name!r})", _NONE, session_options.unknown_name(name) or "a switch of the graph compiler")
        setter, effect, why = POPART.get(name, switch)
        yield OptionReport(setter, value, effect, why)


def log_ignored(options: "Options") -> None:
    """One log line that names the options without effect; call it once for each wrapped model.

    A warning when an option needs hardware or is not known; information otherwise.
    """
    ignored = [entry for entry in report(options) if entry.effect is not OptionEffect.HONOURED]
    if not ignored:
        return
    unknown = any(session_options.unknown_name(name) for name in options._Popart.options)
    grave = unknown or any(entry.effect is OptionEffect.NEEDS_HARDWARE for entry in ignored)
    listed = "; ".join(f"{entry.option} = {entry.value!r} ({entry.effect.value}: {entry.why})" for entry in ignored)
    logger.log(logging.WARNING if grave else logging.INFO, "Options without effect on a software IPU: %s", listed)


def stored_names() -> FrozenSet[str]:
    """Names in ``Options.toDict`` that are PopTorch's own; all others are PopART's."""
    locations = {f"location_{kind}" for kind in ("activation", "weight", "optimizer", "accumulator")}
    strategies = {"execution_mode", "separate_backward_phase", "serial_phases_execution", "tensors_liveness"}
    distributed = {"num_distributed_processes", "distributed_process_id"}
    return frozenset({*OPTIONS, *TRAINING, "use_model", *locations, *strategies, *distributed})


def log_settings(options: "Options") -> None:
    """All values in the debug log, in PopTorch's words; call it once for each compilation, with the output mode resolved.

    Raises:
        Error: an option of PopART that does not exist, or has a value of a wrong type.
    """
    session_options.check(options._Popart.options)
    if logger.isEnabledFor(logging.DEBUG):
        for line in session_options.settings(options.toDict()):
            logger.debug("%s", line)
