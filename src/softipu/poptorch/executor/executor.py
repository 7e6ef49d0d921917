"""PoplarExecutor: a module on an IPU, what trainingModel and inferenceModel return."""

import datetime
import functools
import time
import weakref
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch import nn

from softipu.errors import Error
from softipu.graph import Role, Step
from softipu.poptorch.blocks.marking import module_repr
from softipu.poptorch.blocks.placement import Placement
from softipu.poptorch.blocks.strategies import PipelinedExecution
from softipu.poptorch.debugging.anchoring import Anchored
from softipu.poptorch.debugging.latency import CallTimes
from softipu.poptorch.debugging.tensor_names import TensorNames
from softipu.poptorch.enums import CommGroupType, ConnectionType, OutputMode, VariableRetrievalMode
from softipu.poptorch.executor import compile_hooks, engine_choice
from softipu.poptorch.executor.backward_error import refuse_backward
from softipu.poptorch.executor.building import Source, build, update_program
from softipu.poptorch.executor.compilation import (
    Outputs,
    batch_shape,
    check_named_buffers,
    output_rule,
)
from softipu.poptorch.executor.device_optimizer import DeviceOptimizer
from softipu.poptorch.inputs import host_inputs
from softipu.poptorch.inputs.arguments import bind
from softipu.poptorch.inputs.input_mismatch import FlatCall, check_same_inputs, flatten_call, tensor_names
from softipu.poptorch.inputs.synthetic_data import SyntheticData
from softipu.poptorch.log import logger
from softipu.poptorch.options import Options, check_target, log_ignored, log_settings
from softipu.poptorch.saved import model_file
from softipu.poptorch.saved.archive import InvalidArchive
from softipu.poptorch.saved.values import CannotSave
from softipu.poptorch.version import VERSION
from softipu.poptorch.weights import module_destroy, wrapped_weights
from softipu.poptorch.weights.host_weights import check_same_weights, host_weights, read_weights, write_weights
from softipu.poptorch.weights.loss_scaling import FINAL_SCALE
from softipu.poptorch.weights.replica_grouping import groupable, read_groups
from softipu.runtime import Program
from softipu.runtime.replica_groups import ReplicaGroups

_NOT_COMPILED = "Model has not been compiled or has been destroyed. Call it once, or compile(*inputs), first."
_DEFAULT_SEED = 42  # of a device that no Options.randomSeed was given
# Modules that a training executor holds, so that none is wrapped twice.
_in_training: "weakref.WeakKeyDictionary[nn.Module, weakref.ref[PoplarExecutor]]" = weakref.WeakKeyDictionary()


class PoplarExecutor:
    """A module on an IPU. Calling it runs a whole host batch; the first call compiles.

    The module's own parameter objects stay where they are: the host's copy. The device has a second one.
    Training makes the host's copy stale; reading a parameter brings it up to date.

    Args:
        model: what runs; its ``__call__`` may be its own.
        options: frozen by this; default Options().
        training: whether calls update the weights.
        poptorch_version: of the program that makes it; not used.
        optimizer: in training; default SGD with a learning rate of 0.01.
        user_model: whose attributes the executor shows; default ``model``. Its parameters are those of ``model``.

    Attributes:
        model: the module as it was given.
        options: the executor's own, frozen copy.

    Raises:
        Error: options of a wrong type, or with gradient accumulation in inference.
        AssertionError, ValueError: an optimizer that the device has no rule for.
    """

    def __init__(
        self,
        model: nn.Module,
        options: Optional[Options] = None,
        training: bool = False,
        poptorch_version: Optional[str] = None,
        optimizer: Optional[torch.optim.Optimizer] = None,
        user_model: Optional[nn.Module] = None,
    ) -> None:
        if options is not None and not isinstance(options, Options):
            raise Error(f"Expected a poptorch.Options for options, given a {type(options).__name__}: {options!r}.")
        given = options if options is not None else Options()
        given._freeze()
        self._options = given.clone()
        if self._options.defaultOutputMode():
            self._options.outputMode(OutputMode.Final if training else OutputMode.All)
        self._options._freeze()
        self._module: Optional[nn.Module] = model
        self._shown: Optional[nn.Module] = user_model if user_model is not None else model
        self._training = training
        self._shape = batch_shape(self._options, training=training)
        if not training and self._options.Training.gradient_accumulation != 1:
            pipelined = isinstance(self._options._execution_strategy, PipelinedExecution)
            raise Error(
                "You must set poptorch.Options().Training.gradientAccumulation to 1 or leave it as its default value (1) when running a "
                "poptorch.inferenceModel()."
                + (
                    " Use poptorch.Options().deviceIterations to process a sufficient number of batches each run for pipelined "
                    "execution instead." * pipelined
                )
                + f" Given {self._options.Training.gradient_accumulation}."
            )
        self._optimizer: Optional[DeviceOptimizer] = None
        if training:
            chosen = optimizer if optimizer is not None else _default_optimizer(model)
            self._optimizer = DeviceOptimizer(chosen, dict(model.named_parameters()), self._options, self._shape)
        self._engine_choice = engine_choice.current()
        self._program: Optional[Program] = None
        self._attached = False
        self._host_is_stale = False
        self._generation = 0  # of the weights on the device; others compare it to know whether theirs are older
        self._seen: Dict[int, int] = {}  # generations of the training executors whose weights this one has
        self._compilation_time: Optional[datetime.timedelta] = None
        self._times = CallTimes()
        self._wrapped: List[torch.Tensor] = []
        self._saved_optimizer_state: Optional[Dict[str, torch.Tensor]] = None
        self._is_destroyed = False
        self._groups: Dict[str, ReplicaGroups] = {}
        self._synthetic: Optional[SyntheticData] = None
        self._wrap()
        log_ignored(self._options)

    # What the program is

    @property
    def model(self) -> nn.Module:
        """The module as it was given."""
        if self._shown is None:
            raise Error(_NOT_COMPILED)
        return self._shown

    @property
    def options(self) -> Options:
        """The executor's own options, frozen."""
        return self._options

    @property
    def step(self) -> Step:
        """The captured step. Error: not compiled."""
        return self._running().step

    def isCompiled(self) -> bool:
        """Whether there is a program; False again after destroy()."""
        return self._program is not None

    def isAttachedToDevice(self) -> bool:
        """Whether the program holds a device."""
        return self._attached

    # Compiling and running

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles for inputs of the full host batch size, without running.

        Raises:
            Error, AssertionError: as a call does.
        """
        if self.isCompiled():
            logger.warning("Call to compile() ignored: the model is already compiled. Call destroy() first to compile anew.")
            return
        self._compile(*self._flatten(args, kwargs))

    def compileAndExport(self, filename: str, *args: Any, export_model: bool = True, **kwargs: Any) -> None:
        """Compiles as ``compile`` does if that was not done yet, and saves as ``save`` does; needs no device.

        Raises:
            Error, AssertionError: as compile and save do.
        """
        if not self.isCompiled():
            self._compile(*self._flatten(args, kwargs))
        self.save(filename, export_model=export_model)

    def save(self, filename: str, export_model: bool = True, save_rng_state: bool = True) -> None:
        """Writes the compiled model to a file, for ``poptorch.load`` or ``loadExecutable``.

        Args:
            filename: where to; a folder gets ``model.poptorch``, missing folders are made.
            export_model: whether module, options, optimizer and their states are written too, for ``poptorch.load``.
            save_rng_state: whether the device's random numbers go on from where they are after loading.

        Raises:
            Error: not compiled, or something in the module that cannot be written safely.
            AssertionError: the destination's parent is no folder.
        """
        memory = self._running().memory
        self.copyWeightsToHostIfNeeded()
        if self._optimizer is not None:
            self._optimizer.upload()
        model = None
        if export_model:
            optimizer = self._optimizer.optimizer if self._optimizer is not None else None
            rng_state = self.rng_state if save_rng_state else None
            model = model_file.Model(self._user_module(), self._options, optimizer, memory.optimizer_state, rng_state)
        try:
            model_file.write(model_file.destination(filename), VERSION, self._training, self._call, model)
        except CannotSave as error:
            raise Error(
                f"The model cannot be saved to {filename}: {error}. Save it with export_model=False, and later make the module yourself, "
                "wrap it, and call loadExecutable(filename)."
            ) from error

    def loadExecutable(self, filename: str) -> None:
        """Makes the model ready to run from a file of ``save`` or ``compileAndExport`` for the same module and options.

        Raises:
            Error: no such file, damaged, or compiled by the other of trainingModel and inferenceModel.
            AssertionError: written by another version of PopTorch.
        """
        try:
            saved = model_file.read(filename, VERSION, with_model=False)
        except (InvalidArchive, OSError) as error:
            raise Error(f"Invalid file {filename}: {error}.") from error
        if saved.training != self._training:
            kinds = ("an inferenceModel", "a trainingModel")
            raise Error(f"Invalid file {filename}: it was compiled by {kinds[saved.training]}, and this is {kinds[self._training]}.")
        args, kwargs = saved.arguments
        self.compile(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one host batch: device iterations x accumulation x replicas micro-batches.

        Returns:
            What forward returns, with the rows of the micro-batches that the output mode keeps.

        Raises:
            Error: inputs other than those compiled for, or something that an IPU cannot do.
            AssertionError: rows that do not divide, wrong arguments, or an offline target.
        """
        given, call = self._flatten(args, kwargs)
        if not self.isCompiled():
            self._compile(given, call)
        else:
            check_same_inputs(self._call, call)
        assert self._options.connection_type != ConnectionType.Never, (
            "Trying to run a model on an offline device (ConnectionType.Never): it can be compiled and saved, but not run. "
            "Use ConnectionType.Always or OnDemand."
        )
        if not self._attached:
            self.attachToDevice()
        if not self._training:
            self._take_newer_weights()
        return self._run(given)

    def _flatten(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[Sequence[torch.Tensor], FlatCall]:
        bound = bind(self._user_module(), args, kwargs)
        return flatten_call(bound.names, bound.args, bound.kwargs)

    def _run(self, given: Sequence[torch.Tensor]) -> Any:
        program, times = self._running(), self._times
        times.start()
        used = [host_inputs.on_device(t) for t in given]
        if self._synthetic is not None:
            used = self._synthetic.instead_of(used)
        times.input_complete()
        if self._optimizer is not None:
            if self._optimizer.is_waiting():
                self.copyWeightsToHostIfNeeded()  # the weights that belong to the state that goes
                self._optimizer.upload()
            self._anchored.recorder.numbers[FINAL_SCALE] = torch.tensor(self._optimizer.loss_scale)
            results = program.run(used, self._optimizer.hyper(), self._optimizer.loss_scale)
            self._optimizer.has_run()
            self._optimizer.adjust_loss_scale()
            self._host_is_stale = True
            self._generation += 1
        else:
            results = program.run(used)
        times.output_start()
        outputs = host_inputs.on_host(results, self._output_dtypes)
        if self._synthetic is None:
            host_inputs.write_back(self._changed_inputs, given, used)
            times.stop()
        else:
            times.forget()  # nothing was transferred
        refuse_backward(outputs)
        return self._outputs.build(outputs)

    def _wrap(self) -> None:
        if self._training:
            module = self._user_module()
            _in_training[self.model] = weakref.ref(self)
            self._wrapped = wrapped_weights.wrap([*module.parameters(), *module.buffers()], self)
            module_destroy.give(self.model, self.destroy)
        self._is_destroyed = False

    def _compile(self, given: Sequence[torch.Tensor], call: FlatCall) -> None:
        module = self._user_module()
        if self._is_destroyed:
            self._wrap()
        names = tensor_names(call)
        used = [host_inputs.on_device(t) for t in given]
        micro = host_inputs.micro_batch(used, names, self._shape)
        host_inputs.warn_about(names, given)
        check_target(self._options)
        check_named_buffers(module, self._options)
        if self._options._Popart.options["instrumentWithHardwareCycleCounter"]:
            raise Error("Cycle count logging is only supported on actual IPU hardware. Leave out Options.logCycleCount(True).")
        log_settings(self._options)
        compile_hooks.run_before()
        start = time.perf_counter()
        self._bring_host_up_to_date(module)
        built = build(
            Source(module, call, micro, self._options, self._shape, self._groups, self._seed()),
            self._optimizer,
            self._saved_optimizer_state,
            self._engine_choice,
        )
        self._program, self._outputs, self._names, self._anchored = built.program, built.outputs, built.names, built.anchored
        self._placement = built.placement
        self._synthetic = SyntheticData(self._seed()) if self._options._Popart.options.get("syntheticDataMode") else None
        self._attached = self._options.connection_type != ConnectionType.Never
        if self._optimizer is not None:
            if self._attached:
                self._optimizer.use(built.program.memory, self._rebuild_update)
                self._optimizer.upload()
            self._optimizer.log_numbers()
        step = built.program.step
        self._call = call
        self._output_dtypes = [v.dtype for v in step.outputs if v.role is Role.OUTPUT]
        self._changed_inputs = [i for i in range(len(given)) if step.mutates(Role.INPUT, str(i))]
        self._compilation_time = datetime.timedelta(seconds=time.perf_counter() - start)
        self._host_is_stale = False
        self._note_generations(module)
        compile_hooks.run_after()

    def getTensorNames(self) -> List[str]:
        """Names of all tensors of the compiled model, as Options.anchorTensor takes them. AssertionError: not compiled."""
        assert self._program is not None, "Model must be compiled before calling getTensorNames."
        return self._names.listed()

    def getAnchoredTensor(self, short_name: str) -> torch.Tensor:
        """The value of an Options.anchorTensor entry in the last call, with the rows that its output mode keeps.

        Raises:
            AssertionError: no entry of that name, no call yet, or an output mode that kept no value.
        """
        values = self._anchored.values() if self._program is not None else {}
        value = values.get(short_name)
        assert value is not None, (
            f"No tensor with name {short_name} found. Anchored are {', '.join(values) or 'none'}; a value is there after a call, if the "
            "anchor's output mode keeps one."
        )
        return host_inputs.on_host([value], [value.dtype])[0]

    def _group_replicas(
        self, parameter: torch.Tensor, comm_group_type: CommGroupType, shards: int, variable_retrieval_mode: VariableRetrievalMode
    ) -> None:
        """What ``replicaGrouping`` of a parameter does. Error: compiled already; and as ``replicaGrouping`` says."""
        if self.isCompiled():
            raise Error("Call replicaGrouping before the model is compiled; destroy() it first to change the groups.")
        name = next(n for n, p in self._user_module().named_parameters() if p is parameter)
        replicas = self._options.replication_factor
        groups = read_groups(name, parameter, replicas, comm_group_type, shards, variable_retrieval_mode)
        self._groups.pop(name, None)
        if groups is not None:
            self._groups[name] = groups

    # Weights

    def copyWeightsToHost(self) -> None:
        """Device to host: every parameter and buffer. Error: not compiled."""
        logger.debug("copyWeightsToHost()")
        memory = self._running().memory
        module = self._user_module()
        check_same_weights(module, memory)
        self._host_is_stale = False
        read_weights(module, memory)

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Copies only if the device has newer weights; returns whether it did."""
        if not self._host_is_stale or not self._attached:
            return False
        self.copyWeightsToHost()
        return True

    def copyWeightsToDevice(self) -> None:
        """Host to device: every parameter and buffer, as the host has them now. Error: not compiled."""
        logger.debug("copyWeightsToDevice()")
        memory = self._running().memory
        module = self._user_module()
        check_same_weights(module, memory)
        self._host_is_stale = False
        self._generation += 1
        write_weights(module, memory)

    def copyNamedBuffersToDevice(self) -> None:
        """Uploads the buffers named by Options.updatableNamedBuffers only. Error: not compiled, or none were named."""
        memory = self._running().memory
        wanted = self._options._Popart.options.get("updatableNamedBuffers") or []
        if not wanted:
            raise Error("copyNamedBuffersToDevice needs Options.updatableNamedBuffers([...]) to say which buffers.")
        buffers = host_weights(self._user_module()).buffers
        memory.write({}, {name: buffers[name] for name in wanted})

    def load_state_dict(self, state_dict: Dict[str, Any], strict: bool = True) -> Any:
        """Loads into the module, then onto the device if attached; returns torch's report of the keys."""
        report = self.model.load_state_dict(state_dict, strict=strict)
        if self._attached:
            self.copyWeightsToDevice()
        return report

    def _take_newer_weights(self) -> None:
        module = self._user_module()
        stale = False
        for owner in _owners(module):
            owner.copyWeightsToHostIfNeeded()
            stale = stale or self._seen.get(id(owner)) != owner._generation
        if stale:
            self.copyWeightsToDevice()
            self._note_generations(module)

    def _bring_host_up_to_date(self, module: nn.Module) -> None:
        for owner in _owners(module):
            owner.copyWeightsToHostIfNeeded()

    def _note_generations(self, module: nn.Module) -> None:
        self._seen = {id(owner): owner._generation for owner in _owners(module)}

    # The optimizer

    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Takes the numbers that ``optimizer`` has now; they hold from the next call on. Momenta stay if the rule does.

        Raises:
            AssertionError, ValueError: an optimizer that the device has no rule for.
        """
        if self._optimizer is None:
            raise Error("setOptimizer is for training models; this one was made by inferenceModel.")
        must_build = self._optimizer.take(optimizer)
        if must_build and self._program is not None:
            self._rebuild_update()
        if self._program is not None:
            if self._attached:
                self._optimizer.use(self._program.memory, self._rebuild_update)
            self._optimizer.log_numbers()

    def _rebuild_update(self) -> None:
        program, optimizer = self._running(), self._optimizer
        assert optimizer is not None
        old = program.memory.optimizer_state
        used = {n: program.memory.parameters[n] for n in program.step.named_outputs(Role.GRADIENT)}
        optimizer.build(used, program.engine.update_form)
        program.memory.optimizer_state = optimizer.first_state(program.memory.parameters, old)
        program.set_update(update_program(optimizer, self._options, program.memory))

    # The device

    def detachFromDevice(self) -> None:
        """Lets the device go, after weights and random state were copied to the host. Error: not compiled, or not attached."""
        self._running()
        if not self._attached:
            raise Error("Device is not attached, so it cannot be detached.")
        if self._training:
            self.copyWeightsToHostIfNeeded()
        if self._optimizer is not None:
            self._optimizer.bring_host_up_to_date()
        self._attached = False

    def attachToDevice(self) -> None:
        """Takes a device and uploads the weights. Error: not compiled, or attached already. AssertionError: an offline target."""
        self._running()
        assert self._options.connection_type != ConnectionType.Never, "Trying to attach to an offline device (ConnectionType.Never)."
        if self._attached:
            raise Error("Device is already attached.")
        self._attached = True
        module = self._user_module()
        if not self._training:
            self._bring_host_up_to_date(module)
        self.copyWeightsToDevice()
        self._note_generations(module)
        if self._optimizer is not None:
            self._optimizer.upload()

    def destroy(self) -> None:
        """Frees the program; a training executor first copies its weights to the host and unwraps the module."""
        if self._is_destroyed:
            raise Error("model was never wrapped, or has been destroyed already.")
        self._is_destroyed = True
        if self._training:
            if self._attached:
                self.copyWeightsToHostIfNeeded()
            if self._optimizer is not None:
                self._optimizer.release()
            wrapped_weights.unwrap(self._wrapped, self)
            self._wrapped = []
            _in_training.pop(self.model, None)
            module_destroy.take(self.model)
        self._program = None
        self._attached = False
        self._host_is_stale = False

    @property
    def rng_state(self) -> List[int]:
        """[seed, micro-steps drawn so far]; setting it replays the device's random numbers from there. Error: not compiled."""
        stream = self._running().memory.stream
        return [stream.seed, stream.n_drawn] if self._running().step.n_random_ops else [0, 0]

    @rng_state.setter
    def rng_state(self, state: List[int]) -> None:
        stream = self._running().memory.stream
        stream.seed, stream.n_drawn = int(state[0]), int(state[1])

    def compilationTime(self) -> datetime.timedelta:
        """Wall time of the compilation. Error: not compiled, or Options.showCompilationProgressBar is off."""
        self._running()
        if not self._options._show_compilation_progress_bar:
            raise Error("compilationTime needs Options.showCompilationProgressBar().")
        assert self._compilation_time is not None
        return self._compilation_time

    def getPerfCounters(self) -> Dict[str, List[List[float]]]:
        """Time stamps of the last call: input, input_complete, output, output_complete."""
        n_inputs = len(self._call.kinds) if self.isCompiled() else 0
        n_outputs = len(self._output_dtypes) if self.isCompiled() else 0
        n_returned = output_rule(self._options, self._shape).n_returned(self._shape)
        return self._times.counters(n_inputs, n_outputs, self._shape.n_micro_batches, n_returned)

    def getLatency(self) -> Tuple[float, float, float]:
        """(min, max, average) seconds from the first input to the last output."""
        return self._times.latency("input", "output_complete")

    def getHostIpuLatency(self) -> Tuple[float, float, float]:
        """(min, max, average) seconds of the transfer to the device."""
        return self._times.latency("input", "input_complete")

    def getComputeLatency(self) -> Tuple[float, float, float]:
        """(min, max, average) seconds of the computation."""
        return self._times.latency("input_complete", "output")

    def getIpuHostLatency(self) -> Tuple[float, float, float]:
        """(min, max, average) seconds of the transfer back."""
        return self._times.latency("output", "output_complete")

    def cycleCount(self) -> int:
        """Cycles of the last run, which only hardware counts. Error: always, with what to do on hardware."""
        if not self._options._Popart.options["instrumentWithHardwareCycleCounter"]:
            raise Error(
                "Cycle count logging is disabled. Please set option logCycleCount to True to enable. Only IPU hardware counts cycles."
            )
        raise Error("Please run the model at least once before obtaining cycle count. Only IPU hardware counts cycles.")

    # The module behind it

    def __repr__(self) -> str:
        return module_repr(self._shown) if isinstance(self._shown, nn.Module) else object.__repr__(self)

    def _debugGetPopartIR(self) -> str:
        """PopART's graph as text. Error: always."""
        raise Error(
            "_debugGetPopartIR: the software IPU compiles no PopART graph. getTensorNames() lists the tensors of the model, and the log at "
            "level DEBUG says where each is computed."
        )

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__.get("_shown")
        if module is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}' (and no module to forward it to)")
        found = getattr(module, name)
        if isinstance(found, nn.Parameter) and not self._training and not self.isCompiled():
            return groupable(found, functools.partial(self._group_replicas, found))
        return found

    def _user_module(self) -> nn.Module:
        if self._module is None:
            raise Error(_NOT_COMPILED)
        return self._module

    def _running(self) -> Program:
        if self._program is None:
            raise Error(_NOT_COMPILED)
        return self._program

    def _seed(self) -> int:
        return int(self._options.random_seed) if self._options.exists("random_seed") else _DEFAULT_SEED

    _outputs: Outputs
    _call: FlatCall
    _output_dtypes: List[torch.dtype]
    _changed_inputs: List[int]
    _placement: Placement
    _names: TensorNames
    _anchored: Anchored


def in_training(module: nn.Module) -> Optional[PoplarExecutor]:
    """The training executor that holds the module, if there is one."""
    holder = _in_training.get(module)
    return holder() if holder is not None else None


def _default_optimizer(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=0.01)


def _owners(module: nn.Module) -> List[PoplarExecutor]:
    found: List[PoplarExecutor] = []
    for tensor in [*module.parameters(), *module.buffers()]:
        found.extend(o for o in wrapped_weights.owners_of(tensor) if isinstance(o, PoplarExecutor) and o not in found)
    return found
