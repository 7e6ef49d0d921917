"""PopTorch as its documentation has it: a proxy of the software IPU's that the plug-in's own files get, and that refuses every other name.

All tests of tests/lightning_ipu run on it (conftest.py). What PopTorch does not document does not exist for a file of the plug-in, as on
hardware: asking for it is an AttributeError that names it, and ``getattr`` with a default gives the default. Tests and the software IPU
itself see everything.
"""

import os
import sys
import types
from contextlib import contextmanager

import torch

import lightning_ipu
import softipu.poptorch
from lightning_ipu import backend

PLUGIN = os.path.dirname(lightning_ipu.__file__) + os.sep

# PopTorch 3.4's names, by use in public programs first, then the rest of its API reference.
MODULE = set(
    """
    BeginBlock Options DataLoader inferenceModel trainingModel DataLoaderMode OutputMode identity_loss optim PipelinedExecution
    AutoStage recomputationCheckpoint TensorLocationSettings ReductionType MatMulSerializationMode PoplarExecutor ShardedExecution
    Stage custom_op Block setLogLevel serializedMatMul removeBlocks Attribute SharingStrategy cond dynamic_slice isRunningOnIpu
    dynamic_update set_overlap_for_input set_overlap_for_output OverlapMode MeanReductionStrategy ipuHardwareIsAvailable
    ipuHardwareVersion AsynchronousDataAccessor for_loop nop MultiConv ConnectionType Error RecoverableError UnrecoverableError
    ConfigFileError BlockFunction NameScope ICustomArgParser registerCustomArgParser SyncPattern HalfFloatCastingBehavior Liveness
    CommGroupType VariableRetrievalMode logger LegacyBeginBlockFn createPoptorchError importPoptorchMetadataFromFile
    registerGeometricCustomArgParsers poptorchAtExit set_available_memory ipu_print_tensor CPU MultiConvPlanType
    ctc_beam_search_decoder fps nearest profiling SerialPhasedExecution ParallelPhasedExecution Phase testing load
    registerPreCompileHook registerPostCompileHook enums
    """.split()
)
EXECUTOR = set(
    """
    compile detachFromDevice attachToDevice isAttachedToDevice setOptimizer destroy getAnchoredTensor copyWeightsToDevice
    isCompiled getTensorNames loadExecutable getLatency copyWeightsToHost copyNamedBuffersToDevice save compileAndExport
    copyWeightsToHostIfNeeded load_state_dict model options rng_state getPerfCounters getComputeLatency getHostIpuLatency
    getIpuHostLatency cycleCount compilationTime
    """.split()
)
# Values are readable under their own names too: those that have a default, see `_readable`.
OPTIONS = set(
    """
    Training Precision TensorLocations Distributed Jit _Popart deviceIterations enableExecutableCaching replicationFactor
    setExecutionStrategy outputMode randomSeed autoRoundNumIPUs setAvailableMemoryProportion anchorTensor enableSyntheticData
    useOfflineIpuTarget toDict broadcastBuffers enableProfiling connectionType useIpuModel updatableNamedBuffers enableStableNorm
    relaxOptimizerAttributesChecks defaultOutputMode useIpuId syncPattern inputReplicaGrouping logCycleCount modelName logDir
    maxRepeatLogs showCompilationProgressBar disableModuleNamescope sourceLocationExcludes appendToLocationExcludes loadFromFile
    from_json clone
    """.split()
)
TRAINING = set(
    "gradientAccumulation accumulationAndReplicationReductionType setAutomaticLossScaling setConvolutionDithering "
    "setMeanAccumulationAndReplicationReductionStrategy".split()
)
PRECISION = set(
    "setPartialsType enableStochasticRounding enableFloatingPointExceptions halfFloatCasting runningStatisticsAlwaysFloat".split()
)
LOCATIONS = set("setOptimizerLocation setWeightLocation setActivationLocation setAccumulatorLocation numIOTiles".split())
LOCATION = set(
    "useOnChipStorage useReplicatedTensorSharding useIOTilesToLoad useIOTilesToStore minElementsForOffChip "
    "minElementsForReplicatedTensorSharding".split()
)
POPART = {"set", "setPatterns", "setEngineOptions", "options"}
DISTRIBUTED = {"numProcesses", "processId", "configureProcessId", "disable", "setEnvVarNames"}
BLOCK = {"start", "useAutoId"}
LOADER = {"combinedBatchSize", "terminate", "options"}
OPTIMIZER = set(
    "variable_attrs loss_scaling bias_correction accum_type first_order_momentum_accum_type second_order_momentum_accum_type "
    "velocity_accum_type velocity_scaling use_combined_accum max_weight_norm max_grad_norm use_tf_variant get_state_dict set_state_dict "
    "has_state".split()
)
OPTIMIZERS = ("SGD", "Adam", "AdamW", "RMSprop", "LAMB")


def _asked_by_the_plugin():
    return sys._getframe(2).f_code.co_filename.startswith(PLUGIN)


def _readable(options):
    """Names of an option set's values."""
    return {name for name in options._defaults if not name.startswith("_")}


class _Module(types.ModuleType):
    """The module ``poptorch``; what asks is always the plug-in or a test that goes through it."""

    def __getattr__(self, name):
        if _asked_by_the_plugin() and name not in MODULE and not name.startswith("__"):
            raise AttributeError(f"poptorch.{name} is no public name of PopTorch 3.4")
        return getattr(softipu.poptorch, name)


@contextmanager
def public_names_only():
    """Meanwhile the plug-in's files reach documented names only. Gives the names that they asked for, a set for each class."""
    poptorch = softipu.poptorch
    given = poptorch.Options()
    torchs = set(vars(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1))) | set(dir(torch.optim.Optimizer))
    loaders = set(vars(torch.utils.data.DataLoader([1]))) | set(dir(torch.utils.data.DataLoader))
    classes = [
        (poptorch.PoplarExecutor, EXECUTOR),
        (poptorch.Options, OPTIONS | _readable(given)),
        (type(given.Training), TRAINING | _readable(given.Training)),
        (type(given.Precision), PRECISION | _readable(given.Precision)),
        (type(given.TensorLocations), LOCATIONS | _readable(given.TensorLocations)),
        (type(given._Popart), POPART),
        (type(given.Distributed), DISTRIBUTED),
        (poptorch.TensorLocationSettings, LOCATION),
        (poptorch.Block, BLOCK),
        (poptorch.DataLoader, LOADER | loaders),
        *((getattr(poptorch.optim, name), OPTIMIZER | torchs) for name in OPTIMIZERS),
    ]
    used = {}
    undo = [_guard(cls, allowed, used.setdefault(cls.__name__, set())) for cls, allowed in classes]
    proxy, real = _Module("softipu.poptorch"), backend.poptorch

    def public():
        real()  # chooses, and says so
        return proxy

    public.cache_clear = real.cache_clear
    backend.poptorch = public
    try:
        yield used
    finally:
        backend.poptorch = real
        for back in undo:
            back()


def _guard(cls, allowed, used):
    """Refuses other names of ``cls`` to the plug-in; gives what undoes that."""
    before = {name: cls.__dict__[name] for name in ("__getattribute__", "__getattr__") if name in cls.__dict__}
    get, fallback = cls.__getattribute__, getattr(cls, "__getattr__", None)

    def check(name):
        used.add(name)
        # What the plug-in itself puts on an object has its name.
        if name not in allowed and not name.startswith(("__", "_lightning_ipu")):
            raise AttributeError(f"{cls.__name__}.{name} is no public name of PopTorch 3.4")

    def __getattribute__(self, name):
        if _asked_by_the_plugin():
            check(name)
        return get(self, name)

    def __getattr__(self, name):
        if _asked_by_the_plugin():
            check(name)
        return fallback(self, name)

    cls.__getattribute__ = __getattribute__
    if fallback is not None:
        cls.__getattr__ = __getattr__

    def undo():
        for name in ("__getattribute__", "__getattr__"):
            if name in before:
                setattr(cls, name, before[name])
            elif name in cls.__dict__:
                delattr(cls, name)

    return undo
