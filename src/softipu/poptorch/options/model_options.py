"""``poptorch.Options``: how a model is compiled and run."""

import copy
import os
from typing import Any, Dict, List, Optional, Tuple

import torch

from softipu.poptorch.blocks.strategies import ExecutionStrategy, PipelinedExecution
from softipu.poptorch.enums import CommGroupType, ConnectionType, OutputMode, SyncPattern
from softipu.poptorch.log import logger
from softipu.poptorch.options import config_file, effects, json_form
from softipu.poptorch.options.distributed import _DistributedOptions
from softipu.poptorch.options.jit import _JitOptions
from softipu.poptorch.options.option_set import OptionSet
from softipu.poptorch.options.popart import _PopartOptions
from softipu.poptorch.options.precision import _PrecisionOptions
from softipu.poptorch.options.tensor_locations import _TensorLocationOptions
from softipu.poptorch.options.training import _TrainingOptions

IPU_VERSIONS = (1, 2, 21)


class Options(OptionSet):
    """Every setter returns the options, so that calls can be chained; values are readable under snake_case names.

    Options are frozen once they are given to a model or a DataLoader. ``clone()`` and ``copy.deepcopy`` make copies that are not.
    Enumerated values are stored as plain ints. A new object starts from POPTORCH_CACHE_DIR (as ``enableExecutableCaching``) and
    POPTORCH_DEFAULT_OPTIONS (as ``from_json``).

    Raises:
        AttributeError: an unknown name, or writing when frozen.
        AssertionError: a value of the wrong type.
    """

    _nullable = frozenset({"max_repeat_logs"})

    def __init__(self) -> None:
        self._popart = _PopartOptions()
        self._jit = _JitOptions()
        self._graphProcessing = _PrecisionOptions(self._popart)
        self._training = _TrainingOptions(self._popart)
        self._distributed = _DistributedOptions()
        self._tensor_locations = _TensorLocationOptions()
        self._execution_strategy: ExecutionStrategy = PipelinedExecution()
        self._relax_optimizer_checks = False
        self._show_compilation_progress_bar = True
        self._module_namescope_enabled = True
        self._source_location_excludes: List[str] = ["site-packages/torch", "softipu/"]
        super().__init__(
            device_iterations=1,
            replication_factor=1,
            input_group_size=1,
            input_group_type=CommGroupType.Consecutive.value,
            output_mode=OutputMode.Default.value,
            output_return_period=1,
            anchored_tensors={},
            broadcast_buffers=True,
            connection_type=ConnectionType.Always.value,
            sync_pattern=SyncPattern.Full.value,
            auto_round_num_ipus=False,
            available_memory_proportion={},
            log_dir=".",
            max_repeat_logs=4,
        )
        if os.environ.get("POPTORCH_CACHE_DIR"):
            logger.info("POPTORCH_CACHE_DIR is set: setting cache path to %s", os.environ["POPTORCH_CACHE_DIR"])
            self.enableExecutableCaching(os.environ["POPTORCH_CACHE_DIR"])
        if os.environ.get("POPTORCH_DEFAULT_OPTIONS"):
            logger.info("POPTORCH_DEFAULT_OPTIONS is set: applying %s", os.environ["POPTORCH_DEFAULT_OPTIONS"])
            self.from_json(os.environ["POPTORCH_DEFAULT_OPTIONS"])

    # Groups of options

    @property
    def Training(self) -> _TrainingOptions:
        """Options of training."""
        return self._training

    @property
    def Precision(self) -> _PrecisionOptions:
        """Options of the arithmetic."""
        return self._graphProcessing

    @property
    def TensorLocations(self) -> _TensorLocationOptions:
        """Options of where tensors live."""
        return self._tensor_locations

    @property
    def Distributed(self) -> _DistributedOptions:
        """Options of runs with several processes."""
        return self._distributed

    @property
    def Jit(self) -> _JitOptions:
        """Options of the graph capture."""
        return self._jit

    @property
    def _Popart(self) -> _PopartOptions:
        """Options of the graph compiler, by its own names."""
        return self._popart

    # What one call computes and returns

    def deviceIterations(self, device_iterations: int) -> "Options":
        """Steps of the device for each call of the model. AssertionError: not a positive int."""
        assert not isinstance(device_iterations, int) or device_iterations >= 1, (
            f"deviceIterations must be at least 1, given {device_iterations}"
        )
        self.set(device_iterations=device_iterations)
        return self

    def replicationFactor(self, replication_factor: int) -> "Options":
        """Copies of the model that share the work. AssertionError: not a positive int."""
        assert not isinstance(replication_factor, int) or replication_factor >= 1, (
            f"replicationFactor must be at least 1, given {replication_factor}"
        )
        self.set(replication_factor=replication_factor)
        return self

    def inputReplicaGrouping(self, input_group_size: int, input_group_type: CommGroupType) -> "Options":
        """Give all replicas of a group the same input rows. Set ``replicationFactor`` first.

        With CommGroupType.NoGrouping every replica reads rows of its own, whatever the size.

        Raises:
            ValueError: the type is All or no CommGroupType, or the size is no divisor of the replication factor.
        """
        if not isinstance(input_group_type, CommGroupType) or input_group_type == CommGroupType.All:
            raise ValueError(f"An input group type is CommGroupType.Consecutive, Orthogonal or NoGrouping, given {input_group_type!r}")
        replicas = self.replication_factor
        if not 1 <= input_group_size <= replicas or replicas % input_group_size:
            raise ValueError(
                f"An input group size must be a divisor of the replication factor ({replicas}), given {input_group_size}. "
                "Call replicationFactor before inputReplicaGrouping."
            )
        size = 1 if input_group_type == CommGroupType.NoGrouping else input_group_size
        self.set(input_group_size=size, input_group_type=input_group_type.value)
        return self

    def outputMode(self, output_mode: OutputMode, output_return_period: Optional[int] = None) -> "Options":
        """Which results a call returns; EveryN needs the period N, in device iterations.

        Raises:
            AssertionError: no OutputMode, or EveryN without a positive period.
        """
        assert isinstance(output_mode, OutputMode), f"outputMode needs a poptorch.OutputMode, given {output_mode!r}"
        if output_mode == OutputMode.EveryN:
            assert isinstance(output_return_period, int) and output_return_period > 0, (
                f"EveryN must have output_return_period set to valid positive integer, given {output_return_period!r}"
            )
        elif output_return_period is not None:
            logger.info("The output return period %s has no effect with output mode %s", output_return_period, output_mode.name)
        self.set(output_mode=output_mode.value, output_return_period=output_return_period or 1)
        return self

    def defaultOutputMode(self) -> bool:
        """Whether the output mode is still Default, that is All for inference and Final for training."""
        return self.output_mode == OutputMode.Default

    def anchorTensor(
        self, short_name: str, long_name: str, output_mode: Optional[OutputMode] = None, output_return_period: Optional[int] = 1
    ) -> None:
        """Keep an inner tensor for ``getAnchoredTensor(short_name)``, shaped by its own output mode or else the model's."""
        self.checkIsFrozen()
        assert output_mode is None or isinstance(output_mode, OutputMode), (
            f"anchorTensor needs a poptorch.OutputMode or None, given {output_mode!r}"
        )
        period = output_return_period if output_mode == OutputMode.EveryN else 1
        self.anchored_tensors[short_name] = [long_name, output_mode is None, output_mode, period]

    def broadcastBuffers(self, broadcast_buffers: bool = True) -> "Options":
        """False: every replica keeps its own buffers, and may change them. AssertionError: no bool."""
        self.set(broadcast_buffers=broadcast_buffers)
        return self

    def updatableNamedBuffers(self, buffers: List[str]) -> "Options":
        """Names of the buffers that ``copyNamedBuffersToDevice`` uploads."""
        self._popart.set("updatableNamedBuffers", buffers)
        return self

    def randomSeed(self, random_seed: int) -> "Options":
        """Seed of the device's random numbers; also seeds torch on the host, at once. AssertionError: no int."""
        self.checkIsFrozen()
        assert isinstance(random_seed, int), f"randomSeed needs an int, given {random_seed!r}"
        torch.manual_seed(random_seed)
        self.createOrSet(random_seed=random_seed)
        return self

    def enableStableNorm(self, enabled: bool) -> "Options":
        """Compute means and variances of normalisation layers in two passes."""
        self._popart.set("enableStableNorm", enabled)
        return self

    def enableSyntheticData(self, enabled: bool) -> "Options":
        """Let the device make up its inputs (normal distribution) instead of reading the host's."""
        self._popart.set("syntheticDataMode", 2 if enabled else 0)
        return self

    def relaxOptimizerAttributesChecks(self, relax: bool = True) -> "Options":
        """Mention unexpected optimizer attributes in the debug log only, instead of as warnings."""
        self._relax_optimizer_checks = relax
        return self

    # Devices and placement

    def setExecutionStrategy(self, strategy: ExecutionStrategy) -> "Options":
        """How blocks become stages and phases. AssertionError: no execution strategy."""
        assert isinstance(strategy, ExecutionStrategy), (
            "An execution strategy is a poptorch.PipelinedExecution, ShardedExecution, ParallelPhasedExecution or "
            f"SerialPhasedExecution, given {strategy!r}"
        )
        self._execution_strategy = strategy
        return self

    def setAvailableMemoryProportion(self, available_memory_proportion: Dict[str, float]) -> "Options":
        """Share of an IPU's memory for the temporary values of one operation, such as ``{"IPU0": 0.6}``.

        Raises:
            AssertionError: a key that does not start with IPU.
            ValueError: no number after it.
        """
        by_ipu: Dict[int, float] = {}
        for key, proportion in available_memory_proportion.items():
            assert key.startswith("IPU"), f'Available memory proportions are expected as {{"IPU0": 0.5}}. Invalid key: {key}'
            by_ipu[int(key[3:])] = proportion
        self.set(available_memory_proportion=by_ipu)
        return self

    def autoRoundNumIPUs(self, auto_round_num_ipus: bool = True) -> "Options":
        """Take the next power of two of IPUs instead of failing. AssertionError: no bool."""
        self.set(auto_round_num_ipus=auto_round_num_ipus)
        return self

    def connectionType(self, connection_type: ConnectionType) -> "Options":
        """When to take a device. AssertionError: no ConnectionType."""
        assert isinstance(connection_type, ConnectionType), f"connectionType needs a poptorch.ConnectionType, given {connection_type!r}"
        self.set(connection_type=connection_type.value)
        return self

    def syncPattern(self, sync_pattern: SyncPattern) -> "Options":
        """Which IPUs wait for each other. AssertionError: no SyncPattern."""
        assert isinstance(sync_pattern, SyncPattern), f"syncPattern needs a poptorch.SyncPattern, given {sync_pattern!r}"
        self.set(sync_pattern=sync_pattern.value)
        return self

    def useIpuId(self, ipu_id: int) -> "Options":
        """The device of this id, as ``gc-info`` lists them. AssertionError: no int."""
        assert isinstance(ipu_id, int), f"useIpuId needs an int, given {ipu_id!r}"
        self.createOrSet(ipu_id=ipu_id)
        return self

    def useIpuModel(self, use_model: bool) -> "Options":
        """The IPU Model (True) or hardware (False); goes before POPTORCH_IPU_MODEL. AssertionError: no bool."""
        assert isinstance(use_model, bool), f"useIpuModel needs True or False, given {use_model!r}"
        self.createOrSet(use_model=use_model)
        return self

    def useOfflineIpuTarget(self, ipu_version: int = 2) -> "Options":
        """Compile for an IPU version without having one; the model cannot be run. AssertionError: an unknown version."""
        assert ipu_version in IPU_VERSIONS, f"useOfflineIpuTarget knows the IPU versions {IPU_VERSIONS}, given {ipu_version!r}"
        self.connectionType(ConnectionType.Never)
        self.createOrSet(ipu_version=ipu_version)
        return self

    def enableExecutableCaching(self, path: Optional[str]) -> "Options":
        """Folder where compiled models are kept and looked up; None: no cache."""
        if path is not None:
            self._popart.set("cachePath", os.fspath(path))
        self._popart.set("enableEngineCaching", path is not None)
        return self

    # Names, logs, profiles

    def modelName(self, name: str) -> "Options":
        """Name of the model in reports. AssertionError: no str."""
        assert isinstance(name, str), f"modelName needs a str, given {name!r}"
        self.createOrSet(model_name=name)
        return self

    def logDir(self, log_dir: str) -> "Options":
        """Folder for log files. AssertionError: no str."""
        self.set(log_dir=log_dir)
        return self

    def maxRepeatLogs(self, max_lines: Optional[int]) -> "Options":
        """Lines of the same kind that are logged before the others are left out; None: no limit. AssertionError: no int."""
        self.set(max_repeat_logs=max_lines)
        return self

    def showCompilationProgressBar(self, show: bool = True) -> "Options":
        """Show and time the compilation."""
        self._show_compilation_progress_bar = show
        return self

    def disableModuleNamescope(self) -> "Options":
        """Leave the module names out of the names of operations."""
        self._module_namescope_enabled = False
        return self

    def sourceLocationExcludes(self, excludes: List[str]) -> "Options":
        """Replace the parts of paths whose stack frames are passed over when an operation is traced to the user's code."""
        self._source_location_excludes = list(excludes)
        return self

    def appendToLocationExcludes(self, *excludes: str) -> "Options":
        """Add to the parts of paths whose stack frames are passed over."""
        self._source_location_excludes = self._source_location_excludes + list(excludes)
        return self

    def logCycleCount(self, log_cycle_count: bool) -> "Options":
        """Count the cycles of each run (hardware only)."""
        self._popart.set("instrumentWithHardwareCycleCounter", log_cycle_count)
        return self

    def enableProfiling(self, profile_dir: Optional[str] = None) -> "Options":
        """Write a profile to a folder; POPLAR_ENGINE_OPTIONS goes before it (with a warning)."""
        if any(key in os.environ.get("POPLAR_ENGINE_OPTIONS", "") for key in ("debug.allowOutOfMemory", "autoReport.")):
            logger.warning("Profiling setting overridden by environment variable. Check content of POPLAR_ENGINE_OPTIONS.")
        report = {"debug.allowOutOfMemory": "true", "autoReport.directory": profile_dir or ".", "autoReport.all": "true"}
        self._popart._merge("engineOptions", **report)
        return self

    # As a whole

    def loadFromFile(self, filepath: str) -> "Options":
        """Apply a file of setter calls, one a line, written as in a program but without ``options.``.

        Raises:
            ConfigFileError: a line that is no such call.
        """
        self.checkIsFrozen()
        config_file.apply(self, filepath)
        return self

    def from_json(self, string: str) -> "Options":
        """Apply JSON such as ``{"deviceIterations": 2, "Precision.enableStochasticRounding": true}``.

        A list holds the arguments of a setter with several; a string such as "OutputMode.All" is the member of the enumeration.

        Raises:
            AttributeError: no such setter.
            ValueError: no JSON object.
        """
        self.checkIsFrozen()
        json_form.apply(self, string)
        return self

    def toDict(self) -> Dict[str, Any]:
        """All values in one flat dict. AssertionError: the output mode is still Default."""
        assert not self.defaultOutputMode(), "An output mode must be picked before serialisation: call outputMode()"
        merged = {**self._execution_strategy.backendOptions(), **self._popart.options}
        for part in (self._training, self._distributed, self._tensor_locations):
            part.update(merged)
        return self.update(merged)

    def clone(self) -> "Options":
        """A deep copy that is not frozen."""
        return copy.deepcopy(self)

    def report(self) -> Tuple["effects.OptionReport", ...]:
        """What becomes of every option that differs from its default: honoured, without effect in software, or needs hardware."""
        return effects.report(self)

    def __repr__(self) -> str:
        values = [f"{name}={value!r}" for name, value in self._values.items()]
        groups = ("Distributed", "Jit", "Precision", "TensorLocations", "Training", "_Popart", "_execution_strategy")
        return f"{type(self).__name__}({', '.join(values + [f'{group}={getattr(self, group)!r}' for group in groups])})"
