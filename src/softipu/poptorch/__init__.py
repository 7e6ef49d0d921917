"""PopTorch 3.4's public API on the software IPU."""

from softipu.errors import Error, RecoverableError, UnrecoverableError
from softipu.poptorch import _impl, _logging, _poplar_executor, _utils, enums, optim, options, poptorch_core, profiling, testing
from softipu.poptorch._impl import createPoptorchError
from softipu.poptorch.blocks.marking import BeginBlock, Block, BlockFunction, LegacyBeginBlockFn, module_repr, removeBlocks
from softipu.poptorch.blocks.strategies import (
    ParallelPhasedExecution,
    Phase,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
    Stage,
)
from softipu.poptorch.data.async_data import AsynchronousDataAccessor
from softipu.poptorch.data.dataloader import DataLoader
from softipu.poptorch.device import ipuHardwareIsAvailable, ipuHardwareVersion, isRunningOnIpu
from softipu.poptorch.enums import (
    AutoStage,
    CommGroupType,
    ConnectionType,
    DataLoaderMode,
    HalfFloatCastingBehavior,
    Liveness,
    MatMulSerializationMode,
    MeanReductionStrategy,
    MultiConvPlanType,
    OutputMode,
    OverlapMode,
    ReductionType,
    SharingStrategy,
    SyncPattern,
    VariableRetrievalMode,
)
from softipu.poptorch.executor.compile_hooks import registerPostCompileHook, registerPreCompileHook
from softipu.poptorch.executor.executor import PoplarExecutor
from softipu.poptorch.executor.loading import load
from softipu.poptorch.executor.making import inferenceModel, trainingModel
from softipu.poptorch.inputs.custom_parser import ICustomArgParser, registerCustomArgParser
from softipu.poptorch.log import logger, setLogLevel
from softipu.poptorch.ops.control_flow import cond, for_loop
from softipu.poptorch.ops.cpu import CPU
from softipu.poptorch.ops.ctc_beam_search import ctc_beam_search_decoder
from softipu.poptorch.ops.custom_op import custom_op
from softipu.poptorch.ops.dynamic_slice import dynamic_slice, dynamic_update
from softipu.poptorch.ops.farthest_points import fps
from softipu.poptorch.ops.hints import nop, recomputationCheckpoint, set_available_memory
from softipu.poptorch.ops.identity_loss import identity_loss
from softipu.poptorch.ops.multi_conv import MultiConv
from softipu.poptorch.ops.nearest import nearest
from softipu.poptorch.ops.overlap import set_overlap_for_input, set_overlap_for_output
from softipu.poptorch.ops.print_tensor import ipu_print_tensor
from softipu.poptorch.ops.scopes import Attribute, NameScope
from softipu.poptorch.ops.serialized_matmul import serializedMatMul
from softipu.poptorch.options import ConfigFileError, Options, TensorLocationSettings
from softipu.poptorch.plumbing import importPoptorchMetadataFromFile, poptorchAtExit, registerGeometricCustomArgParsers
from softipu.poptorch.version import VERSION

__version__ = VERSION

__all__ = [
    "AsynchronousDataAccessor",
    "Attribute",
    "AutoStage",
    "BeginBlock",
    "Block",
    "BlockFunction",
    "CPU",
    "CommGroupType",
    "ConfigFileError",
    "ConnectionType",
    "DataLoader",
    "DataLoaderMode",
    "Error",
    "HalfFloatCastingBehavior",
    "ICustomArgParser",
    "LegacyBeginBlockFn",
    "Liveness",
    "MatMulSerializationMode",
    "MeanReductionStrategy",
    "MultiConv",
    "MultiConvPlanType",
    "NameScope",
    "Options",
    "OutputMode",
    "OverlapMode",
    "ParallelPhasedExecution",
    "Phase",
    "PipelinedExecution",
    "PoplarExecutor",
    "RecoverableError",
    "ReductionType",
    "SerialPhasedExecution",
    "ShardedExecution",
    "SharingStrategy",
    "Stage",
    "SyncPattern",
    "TensorLocationSettings",
    "UnrecoverableError",
    "VariableRetrievalMode",
    "__version__",
    "cond",
    "createPoptorchError",
    "ctc_beam_search_decoder",
    "custom_op",
    "dynamic_slice",
    "dynamic_update",
    "enums",
    "for_loop",
    "fps",
    "identity_loss",
    "importPoptorchMetadataFromFile",
    "inferenceModel",
    "ipuHardwareIsAvailable",
    "ipuHardwareVersion",
    "ipu_print_tensor",
    "isRunningOnIpu",
    "load",
    "logger",
    "module_repr",
    "nearest",
    "nop",
    "optim",
    "options",
    "poptorchAtExit",
    "profiling",
    "recomputationCheckpoint",
    "registerCustomArgParser",
    "registerGeometricCustomArgParsers",
    "registerPostCompileHook",
    "registerPreCompileHook",
    "removeBlocks",
    "serializedMatMul",
    "setLogLevel",
    "set_available_memory",
    "set_overlap_for_input",
    "set_overlap_for_output",
    "testing",
    "trainingModel",
]
