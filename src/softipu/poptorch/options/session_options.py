"""The names that ``options._Popart.set`` can take, and what to say about others."""

import difflib
from typing import Any, Dict, List, Mapping

from softipu.errors import Error

NAMES = frozenset(
    """
    accumulateOuterFragmentSettings.excludedVirtualGraphs accumulateOuterFragmentSettings.schedule
    accumulationAndReplicationReductionType accumulationFactor aliasZeroCopy autoRecomputation
    autodiffSettings.stitchStrategy
    automaticLossScalingSettings.binEdgeLocation automaticLossScalingSettings.enabled
    automaticLossScalingSettings.gradientTensorTrackingMethod automaticLossScalingSettings.thresholdUpperCountProportion
    automaticLossScalingSettings.toTrackTensors automaticLossScalingSettings.updatePeriod
    batchSerializationSettings.batchSchedule batchSerializationSettings.concatOnExecutionPhaseChange
    batchSerializationSettings.concatOnPipelineStageChange batchSerializationSettings.concatOnVirtualGraphChange
    batchSerializationSettings.factor batchSerializationSettings.method batchSerializationSettings.transformContext
    bufferingDepthMap cachePath compilationProgressTotal compileEngine constantWeights convolutionOptions
    createImplicitPipeliningFwdOnlyProgram customCodeletCompileFlags customCodelets decomposeGradSum defaultBufferingDepth
    defaultPrefetchBufferingDepth delayVarUpdates developerSettings.timePartitionLoggerThresholdPercentage
    disableGradAccumulationTensorStreams disableOptimizerStateTensorStreams dotChecks dotOpNames
    enableDistributedReplicatedGraphs enableEngineCaching enableExplicitIR enableExplicitMainLoops enableFloatingPointChecks
    enableFullyConnectedPass enableGradientAccumulation enableGroupedMatmuls enableInplaceAmbiguityChecking
    enableLoadAndOffloadRNGState enableMergeExchange enableNonStableSoftmax enableOutlining enableOutliningCopyCostPruning
    enablePipelining enablePrefetchDatastreams enableReplicatedGraphs enableSerializedMatmuls enableStableNorm
    enableStochasticRounding enableSupportedDataTypeCasting engineOptions ensureFp32LossScaleTensor
    executionPhaseSettings.accumulatorIOSchedule executionPhaseSettings.activationIOSchedule
    executionPhaseSettings.optimizerStateIOSchedule executionPhaseSettings.phases executionPhaseSettings.schedule
    executionPhaseSettings.stages executionPhaseSettings.weightIOSchedule
    explicitRecomputation exportPoplarComputationGraph exportPoplarVertexGraph finalDotOp firstDotOp gclOptions
    globalReplicaOffset globalReplicationFactor groupHostSync groupNormStridedChannelGrouping hardwareInstrumentations
    hostAllReduce hostAllReduceRemoteBuffer hostWeightUpdate instrumentWithHardwareCycleCounter kahnTieBreaker logDir
    looseThresholdAtPeak lstmOptions matmulOptions mergeVarUpdate mergeVarUpdateMemThreshold numIOTiles opxAliasChecking
    opxModifyChecking outlineSequenceBreakCost outlineThreshold partialsTypeMatMuls patterns patterns_level
    prefetchBufferingDepthMap rearrangeAnchorsOnHost rearrangeStreamsOnHost
    replicatedCollectivesSettings.mergeAllGatherCollectives replicatedCollectivesSettings.mergeAllReduceCollectives
    replicatedCollectivesSettings.mergeReduceScatterCollectives
    replicatedCollectivesSettings.prepareScheduleForMergingCollectives reportOptions saveInitializersToFile
    scheduleNonWeightUpdateGradientConsumersEarly separateCallOpPdfs serializedPoprithmsShiftGraphsDir
    stashAllTensorsInferencePipeline strictOpVersions subgraphCopyingStrategy swapLimitScheduler syntheticDataMode
    throwIfLog2ScaleTensorNotInRange timeLimitScheduler transitiveClosureOptimizationThreshold updatableNamedBuffers useHostCopyOps
    useLoopCandidateCreator virtualGraphMode
    """.split()
)
"""Members of PopART's SessionOptions (public header sessionoptions.hpp) that PopTorch hands on, and PopTorch's own patterns."""


_SCALARS = (bool, int, float, str)


def unknown_name(name: str) -> str:
    """What to say of an option of an unknown name; an empty string when the name is known."""
    if name in NAMES:
        return ""
    near = difflib.get_close_matches(name, NAMES, n=1)
    return "no PopART option of this name is known, hardware refuses those" + (f"; did you mean {near[0]}?" if near else "")


def check(values: Mapping[str, Any]) -> None:
    """What a compilation says of the options that ``_Popart.set`` was given.

    Raises:
        Error: a name that PopART does not have, or a value of a type that it does not take.
    """
    for name, value in values.items():
        unknown = unknown_name(name)
        if unknown:
            raise Error(f"Unknown PopART option {name!r} (_Popart.set): {unknown}.")
        if not _is_known(value):
            raise Error(
                f"Unknown value type {type(value).__name__} for option {name} (_Popart.set). Values are numbers, strings, booleans, "
                "lists, tuples or sets of numbers and strings, and dicts of those by name."
            )


def _is_known(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, (str, int)) and isinstance(item, _SCALARS) for key, item in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(isinstance(item, _SCALARS) for item in value)
    return isinstance(value, _SCALARS)


def settings(values: Dict[str, Any]) -> List[str]:
    """One line for each option of ``Options.toDict()``, in the words of PopTorch's debug log."""
    lines = []
    for name, value in values.items():
        if isinstance(value, dict):
            lines += [f"poptorch.Options set {name}[{key}] to {item}" for key, item in value.items()]
        elif isinstance(value, (list, tuple, set, frozenset)):
            lines += [f"poptorch.Options added {item} to {name}" for item in value]
        else:
            shown = str(value).lower() if isinstance(value, bool) else f"{value:d}" if isinstance(value, int) else value
            lines.append(f"poptorch.Options set {name} to value {shown}")
    return lines
