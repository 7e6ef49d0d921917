"""IPUStrategy: Lightning's hooks to calls of compiled steps."""

import contextlib
import logging
import time
from typing import Any, ContextManager, Dict, Iterator, List, Mapping, Optional

import torch

from lightning_ipu import backend, figures, model_parallel
from lightning_ipu import options as ipu_options
from lightning_ipu._lightning import Lightning
from lightning_ipu.loading import batching, combined
from lightning_ipu.loading.cutting import Sizes
from lightning_ipu.loading.loop_position import LoopPosition, epoch_length
from lightning_ipu.one_process import OneProcess
from lightning_ipu.planning.strategy_planning import StrategyPlanning
from lightning_ipu.step.capturing import Capturing
from lightning_ipu.step.device import CompiledStep, Device
from lightning_ipu.step.program import Program
from lightning_ipu.structures.outputs import Cut
from lightning_ipu.updates import accumulation, counters, hooks, host_pass, host_update, optimizer_state, optimizers
from lightning_ipu.work_to_come import calls_to_come

_CHECKPOINT_KEY = "lightning_ipu"
_log = logging.getLogger("lightning_ipu")


class StrategyBody(OneProcess):
    """Runs a LightningModule's steps as compiled programs on IPUs.

    ``Trainer(devices=N)`` is the number of IPUs; each replica of the model takes N / R of them, where R is
    ``training_opts.replicationFactor``, or N.

    Args:
        device_iterations: D, micro-batches (in training: weight updates) that one call of the device runs one after another.
        training_opts: ``poptorch.Options`` for training; not changed.
        inference_opts: ``poptorch.Options`` for validation, test and prediction; not changed.
        engine: of the software IPU: ``interpreter`` starts at once, ``compiled`` is faster after a compilation, ``auto`` compiles what
            will be called often enough; SOFTIPU_ENGINE decides for ``auto``.
        plan: a plan of `lightning-ipu plan --search`, or the path of its plan.json: where the model is split, and options.
        report_dir: folder for a report of what the training step costs on IPUs; written once, before the first call.
        allow_oom: train also when the step needs more memory than IPUs have.

    Attributes:
        report: what the training step costs on IPUs; None before it is captured, and where the Poplar SDK runs it.

    Raises:
        ValueError: ``device_iterations`` is no positive whole number, or there is no such engine.
        Error, TypeError: a plan that cannot be read, or is none.
    """

    lightning: Lightning
    strategy_name = "ipu"

    # Of ParallelStrategy in either package.
    lightning_module: Any
    accelerator: Any
    precision_plugin: Any
    checkpoint_io: Any
    model: Any
    optimizers: List[torch.optim.Optimizer]
    lr_scheduler_configs: List[Any]
    setup_optimizers: Any
    setup_precision_plugin: Any
    _layer_sync: Any

    def __init__(
        self,
        device_iterations: int = 1,
        training_opts: Optional[Any] = None,
        inference_opts: Optional[Any] = None,
        *,
        engine: str = "auto",
        plan: Optional[Any] = None,
        report_dir: Optional[Any] = None,
        allow_oom: bool = False,
    ) -> None:
        if engine not in backend.ENGINES:
            raise ValueError(f"IPUStrategy(engine={engine!r}) is not known. Allowed: {', '.join(backend.ENGINES)}.")
        if isinstance(device_iterations, bool) or not isinstance(device_iterations, int) or device_iterations < 1:
            raise ValueError(f"IPUStrategy(device_iterations={device_iterations!r}): give a whole number from 1 on.")
        super().__init__()
        self.arguments = {
            **{"device_iterations": device_iterations, "training_opts": training_opts, "inference_opts": inference_opts},
            **{"engine": engine, "plan": plan, "report_dir": report_dir, "allow_oom": allow_oom},
        }
        self._engine = engine
        self.planning = StrategyPlanning(self, plan, report_dir, allow_oom=allow_oom)
        self.device_iterations = device_iterations
        self._training_opts, self._inference_opts = training_opts, inference_opts
        self._accumulate: Optional[int] = None
        self._schedule: Optional[accumulation.Schedule] = None
        self._random_state_at_end: Optional[List[int]] = None
        self.host_updates: Optional[host_update.HostUpdates] = None  # of the last fit: what captures its step later asks too
        self.position = LoopPosition()
        self._reset()

    def _reset(self) -> None:
        self.device: Optional[Device] = None
        self._programs: Dict[str, Program] = {}
        self._sizes: Optional[Any] = None
        self._in_optimizer_step = False
        self._trainable: Optional[Any] = None
        self._loaded_random_state: Optional[List[int]] = None
        self._seconds = 0.0
        self._bytes: Dict[str, float] = {}

    def released(self) -> Any:
        """This strategy, ready for another Trainer."""
        self._accelerator = self._checkpoint_io = self._precision_plugin = None
        self.parallel_devices = None
        self.cluster_environment = None
        self.position = LoopPosition()
        return self

    # Who runs it

    @property
    def trainer(self) -> Any:
        """The Trainer of the running module."""
        return self.lightning_module.trainer

    @property
    def poptorch(self) -> Any:
        """The PopTorch in use."""
        return backend.poptorch()

    @property
    def report(self) -> Any:
        """What the training step costs on IPUs: see ``softipu.report``."""
        return self.planning.report

    @property
    def training_opts(self) -> Any:
        """Options of training: the user's, with what the Trainer's flags say once a run has begun. A copy each time."""
        return self._completed(trains=True)

    @property
    def inference_opts(self) -> Any:
        """Options of validation, test and prediction: the user's, with what the Trainer's flags say once a run has begun. A copy each
        time."""
        return self._completed(trains=False)

    def _completed(self, *, trains: bool) -> Any:
        own = self.planning.options(self._training_opts if trains else self._inference_opts, trains=trains)
        given = own.clone() if own is not None else self.poptorch.Options()
        if trains and self.device is not None and self.detects_anomalies:
            given.Precision.enableFloatingPointExceptions(True)
        if own is None and not trains and self.device is not None and self.sizes(trains=False).is_split:
            # Without options of the user's, validation runs stage after stage: a pipeline would want as many device iterations as stages.
            given.setExecutionStrategy(self.poptorch.ShardedExecution())
        return ipu_options.loader_options(given, self.sizes(trains=trains)) if self.device is not None else given

    @property
    def root_device(self) -> torch.device:
        """Where the host's tensors are: the CPU. The IPUs are ``parallel_devices``."""
        return torch.device("cpu")

    @property
    def handles_gradient_accumulation(self) -> bool:
        """True: the device accumulates."""
        return True

    # Setting up

    def setup_environment(self) -> None:
        """Takes gradient accumulation over from the Trainer: from here on one host batch is whole updates."""
        trainer = self.trainer
        self.refuse_other_processes(self.cluster_environment, self.lightning)
        self.accelerator.setup_device(self.root_device)
        self.accelerator.prepare_monitors(trainer)
        if trainer.state.fn == "fit" and self._accumulate is None:
            self._schedule = accumulation.schedule_of(trainer, self.lightning)
            self._accumulate = trainer.accumulate_grad_batches
            trainer.accumulate_grad_batches = 1
        self._sizes = None

    def setup(self, trainer: Any) -> None:
        """Checks what cannot be honoured, and makes optimizers and schedulers."""
        module = self.lightning_module
        self.planning.begin()
        if trainer.state.fn == "fit":
            hooks.refuse_overridden(module, self.lightning)
        if self._layer_sync is not None and self.sizes(trains=True).n_replicas > 1:
            raise self.lightning.misconfiguration(
                f"Trainer(sync_batchnorm=True) with {self.sizes(trains=True).n_replicas} replicas: on an IPU the statistics of BatchNorm "
                "are those of each replica's micro-batch, and PopTorch has no operation that joins replicas within a step. Leave it out; "
                "for statistics over more samples use a larger batch_size with fewer devices, or GroupNorm or LayerNorm."
            )
        self.accelerator.setup(trainer)
        self.model = self.precision_plugin.convert_module(self.model)
        self.model_to_device()
        self.device = Device(self.poptorch, module)
        for options in (self._training_opts, self._inference_opts):
            ipu_options.check(options, self.poptorch, self.lightning)
        self.capturing = self.make_capturing()
        self._programs = {}
        if trainer.state.fn == "fit":
            self.setup_optimizers(trainer)
            optimizers.refuse_unsupported(self.optimizers, self.lightning)
            self.host_updates = host_update.HostUpdates(self)
            self.device.random_state, self._loaded_random_state = self._loaded_random_state, None
        self.setup_precision_plugin()
        # Before anything is compiled: later, asking a weight may make PopTorch copy all of them.
        self._bytes = {"ipu.weights_bytes": float(figures.weight_bytes(module))}
        if self.optimizers:
            self._bytes["ipu.optimizer_state_bytes"] = float(sum(figures.state_bytes(optimizer) for optimizer in self.optimizers))

    def make_capturing(self) -> Any:
        """What captures the steps of this run."""
        assert self.device is not None
        return Capturing(self, self.device)

    def engine(self, step: str, cut: Cut) -> ContextManager[None]:
        """In which a step's executor is made, so that it runs on the engine that was asked for."""
        sizes = self.sizes(trains=step == "training_step")
        is_rest = (cut.n_iterations, cut.n_accumulated, cut.n_replicas) != (sizes.n_iterations, sizes.n_accumulated, sizes.n_replicas)
        return backend.engine(self._engine, calls_to_come(self.trainer, step, sizes, is_rest=is_rest))

    def model_to_device(self) -> None:
        """Leaves the weights on the host; PopTorch uploads them."""
        self.lightning_module.to(self.root_device)

    def batch_to_device(self, batch: Any, device: Optional[torch.device] = None, dataloader_idx: int = 0) -> Any:
        """Runs the user's transfer hooks on the host."""
        if self.lightning_module is None:
            return batch
        return self.lightning_module._apply_batch_transfer_handler(batch, device=self.root_device, dataloader_idx=dataloader_idx)

    def sizes(self, *, trains: bool) -> Sizes:
        """D, G and R."""
        if self._sizes is None:
            self._sizes = ipu_options.sizes_of(
                self.planning.options(self._training_opts, trains=True) or self.poptorch.Options(),
                self.planning.options(self._inference_opts, trains=False) or self.poptorch.Options(),
                devices=len(self.parallel_devices or [0]),
                ipus=model_parallel.ipus_of(self.lightning_module),
                accumulate=self._accumulate or 1 if self._schedule is None else self._schedule.common_multiple,
                varies=self._schedule is not None,
                device_iterations=self.device_iterations,
                lightning=self.lightning,
            )
        sizes: Sizes = self._sizes[0 if trains else 1]
        return sizes

    def process_dataloader(self, dataloader: Any) -> Any:
        """A loader of host batches from the user's."""
        trains = bool(self.trainer.training)
        given = self.training_opts if trains else self.inference_opts
        made = batching.host_loader(dataloader, self.sizes(trains=trains), self.poptorch, given, self.lightning, trains=trains)
        if trains:
            self.planning.check_loader(batching.sizes_of_loader(made, self.sizes(trains=True)))
        return made

    def estimated_updates(self, lightnings: Any) -> Any:
        """Trainer.estimated_stepping_batches in weight updates, from Lightning's own answer."""
        trainer = self.trainer
        batches = trainer.num_training_batches
        if trainer.max_epochs == -1 or batches == float("inf") or lightnings == float("inf"):
            return lightnings
        updates = epoch_length(trainer, self.sizes(trains=True)) * max(trainer.max_epochs, 1)
        return min(updates, trainer.max_steps) if trainer.max_steps != -1 else updates

    # Steps

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """Forward, backward and update for a host batch; returns what the module's training_step returns."""
        if not self._in_optimizer_step:
            raise self.lightning.misconfiguration(
                f"{type(self.lightning_module).__name__}.optimizer_step called the closure itself, outside optimizer.step(closure). On an "
                "IPU the closure is the whole update, so it cannot be run without one. Call optimizer.step(closure=optimizer_closure) "
                "once per batch."
            )
        trainer = self.trainer
        if trainer.accumulate_grad_batches != 1:
            assert self.device is not None
            self.device.release()
            self._programs["training_step"].n_updates = 0
            return host_pass.run(self.lightning_module.training_step, (*args, *kwargs.values()), self._sizes_of(0, trains=True))
        limits = [self.position.most_updates(trainer.current_epoch, self._sizes_of(0, trains=True))]
        limits.append(trainer.max_steps - trainer.global_step if trainer.max_steps >= 0 else None)
        limit = min((one for one in limits if one is not None), default=None)
        return self._run("training_step", args, kwargs, trainer.fit_loop.batch_idx, limit)

    def on_train_start(self) -> None:
        """A count of batches that a file gave to Lightning's loops becomes one of host batches."""
        self.position.begin(self.trainer, self._sizes_of(0, trains=True))
        self.host_updates = host_update.HostUpdates(self)  # callbacks may have put hooks on weights
        self.host_updates.tell()
        hooks.tell_of_several_updates(self, self.sizes(trains=True).n_iterations)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """The step does backward and update, so Lightning's closure is left with the step alone; callbacks may have changed that."""
        self.trainer.fit_loop._skip_backward = True
        if self._schedule is not None:
            self._schedule.take_over(self.trainer)

    def validation_step(self, *args: Any, **kwargs: Any) -> Any:
        """The module's validation_step for a host batch."""
        return self._run("validation_step", args, kwargs)

    def test_step(self, *args: Any, **kwargs: Any) -> Any:
        """The module's test_step for a host batch."""
        return self._run("test_step", args, kwargs)

    def predict_step(self, *args: Any, **kwargs: Any) -> Any:
        """The module's predict_step for a host batch."""
        return self._run("predict_step", args, kwargs)

    def _run(self, step: str, args: Any, kwargs: Mapping[str, Any], batch_idx: Optional[int] = None, limit: Optional[int] = None) -> Any:
        args = (*args, *kwargs.values())
        program = self._programs.get(step)
        if program is None:
            assert self.device is not None, "setup comes first"
            program = self._programs[step] = Program(self, step, self.device)
        loader_idx = args[2] if len(args) > 2 else 0
        index = batch_idx if batch_idx is not None else self._batch_idx(args)
        sizes = self._sizes_of(loader_idx, trains=program.trains)
        loaders = getattr(self.trainer._active_loop, "_combined_loader", None)
        if loaders is not None and len(loaders.flattened) > 1 and loaders._mode != "sequential":
            sizes = combined.sizes_of_host_batch(loaders, args[0], sizes, self.lightning)
        return program.run(args, index, sizes, limit)

    def _batch_idx(self, args: Any) -> int:
        if len(args) > 1:
            return int(args[1])
        loop = self.trainer._active_loop
        return int(loop.batch_progress.current.ready) - 1 if loop is not None and hasattr(loop, "batch_progress") else 0

    def _sizes_of(self, loader_idx: int, *, trains: bool) -> Sizes:
        sizes = self.sizes(trains=trains)
        loop = self.trainer._active_loop
        several = getattr(loop, "_combined_loader", None)
        loaders = several.flattened if several is not None else []
        if len(loaders) == 1 or (not trains and loader_idx < len(loaders) and getattr(several, "_mode", "") == "sequential"):
            sizes = batching.sizes_of_loader(loaders[loader_idx], sizes)
        return sizes if self._schedule is None or not trains else sizes.accumulating(self._schedule.at(self.trainer.current_epoch))

    def conditions(self, step: str, batch_idx: int) -> Any:
        """What a captured step depends on beside its arguments."""
        generation = self.device.generation if self.device is not None else 0
        if step != "training_step":
            return generation
        trained = [parameter for group in self.optimizers[0].param_groups for parameter in group["params"]]
        if batch_idx == 0 or self._trainable is None:
            # Asking a parameter may make PopTorch copy weights to the host, so not in every step.
            self._trainable = tuple(parameter.requires_grad for parameter in trained)
        return self._trainable, optimizers.members_of(self.optimizers[0]), generation

    @property
    def detects_anomalies(self) -> bool:
        """Whether Trainer(detect_anomaly=True)."""
        return bool(getattr(self.trainer, "_detect_anomaly", False))

    @contextlib.contextmanager
    def timed_call(self) -> Iterator[None]:
        """Measures a call of the device for ``device_statistics``."""
        start = time.perf_counter()
        yield
        self._seconds = time.perf_counter() - start

    # The optimizer

    def backward(self, closure_loss: torch.Tensor, optimizer: Any = None, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Nothing: the compiled step has done it."""
        return closure_loss

    def optimizer_step(self, optimizer: Any, closure: Any, model: Any = None, **kwargs: Any) -> Any:
        """Runs the closure, which is the compiled step, once, and counts its weight updates."""
        self._in_optimizer_step = True
        try:
            result = closure()
        finally:
            self._in_optimizer_step = False
        program = self._programs.get("training_step")
        if program is not None:
            sizes = self._sizes_of(0, trains=True)
            self.position.count(self.trainer.fit_loop.epoch_loop, program.n_batches, program.n_updates, sizes)
            counters.count_updates(self, optimizer, program.n_updates, sizes)
        return result

    def call_hook(self, name: str, *args: Any) -> None:
        """Calls a hook of the module as Lightning does."""
        self.lightning.name("trainer.call", "_call_lightning_module_hook")(self.trainer, name, *args)

    def bring_optimizer_up_to_date(self, step: CompiledStep) -> None:
        """Gives the device the numbers of the user's optimizer if they have changed."""
        numbers = optimizers.numbers_of(self.optimizers[0])
        if numbers == step.numbers:
            return
        assert step.optimizer is not None
        optimizers.bring_up_to_date(step.optimizer, self.optimizers[0])
        step.executor.setOptimizer(step.optimizer)
        step.numbers = numbers

    # Checkpoints

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> Dict[str, Any]:
        """The optimizer's state in torch's own format, newest."""
        self._pull_optimizer_state(optimizer)
        return torch.optim.Optimizer.state_dict(optimizer)

    def _pull_optimizer_state(self, optimizer: torch.optim.Optimizer) -> None:
        state = self.device.read_optimizer_state() if self.device is not None else None
        if state:
            optimizer_state.to_torch(state, optimizer)

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        """Loads torch's format; the device gets it when the step is compiled."""
        for optimizer, state in zip(self.optimizers, checkpoint["optimizer_states"]):
            torch.optim.Optimizer.load_state_dict(optimizer, state)
            if self.device is not None:
                self.device.optimizer_state = optimizer_state.from_torch(optimizer)

    def save_checkpoint(self, checkpoint: Dict[str, Any], filepath: Any, storage_options: Optional[Any] = None) -> None:
        """Writes the file, with the device's random state beside what Lightning puts into it, and batches counted as on the CPU."""
        state = self.device.read_random_state() if self.device is not None else self._random_state_at_end
        own = {"random_state": list(state)} if state is not None and any(state) else {}
        own.update(self.position.write(checkpoint))
        if own:
            checkpoint[_CHECKPOINT_KEY] = own
        super().save_checkpoint(checkpoint, filepath, storage_options=storage_options)  # type: ignore[misc]

    def load_checkpoint(self, checkpoint_path: Any, *args: Any, **kwargs: Any) -> Dict[str, Any]:
        """Reads the file and keeps the device's random state for the compiled step."""
        checkpoint: Dict[str, Any] = super().load_checkpoint(checkpoint_path, *args, **kwargs)  # type: ignore[misc]
        own = checkpoint.get(_CHECKPOINT_KEY)
        own = own if isinstance(own, dict) else {}
        self._loaded_random_state = own.get("random_state")
        if self.trainer.state.fn == "fit":
            self.position.read(checkpoint, own)
        return checkpoint

    # Figures and the end

    def device_statistics(self) -> Dict[str, float]:
        """Figures of the last call of the device, of what each replica holds, and of the machine model where a step has been priced."""
        found = {"ipu.devices": float(len(self.parallel_devices or [])), "ipu.call_seconds": self._seconds, **self._bytes}
        if self.device is not None:
            found["ipu.compiled_steps"] = float(len(self.device.alive))
            if self.device.holder is not None:
                found.update(figures.cycles(self.device.holder.executor, self.poptorch))
        return {**found, **figures.of_report(self.planning.report)}

    def on_exception(self, exception: BaseException) -> None:
        """Nothing: teardown releases the devices."""

    def teardown(self) -> None:
        """Brings everything to the host and releases the devices. Raises nothing of its own, so that the user's error is the one shown."""
        self.planning.end()
        trainer = self.lightning_module._trainer if self.lightning_module is not None else None
        if self.device is not None:
            self._keep_for_checkpoints()
            self.device.close()
        if trainer is not None:
            trainer.fit_loop._skip_backward = False
            if self._accumulate is not None:
                trainer.accumulate_grad_batches = self._accumulate
        self._accumulate = self._schedule = None
        self._reset()
        if self.cluster_environment is not None:
            self.cluster_environment.teardown()
        self.precision_plugin.teardown()
        if self.accelerator is not None:
            self.accelerator.teardown()
        self.checkpoint_io.teardown()

    def _keep_for_checkpoints(self) -> None:
        """What ``trainer.save_checkpoint`` writes after the run is on the host from here on."""
        assert self.device is not None
        try:
            self._random_state_at_end = self.device.read_random_state() or self._random_state_at_end
            for optimizer in self.optimizers:
                self._pull_optimizer_state(optimizer)
        except Exception as error:  # noqa: BLE001  an error on the way here is the one to show
            _log.warning("lightning-ipu: reading the optimizer's state from the IPUs failed: %s: %s", type(error).__name__, error)

    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        """Puts "ipu" into a registry of Lightning's."""
        strategy_registry.register("ipu", cls, description="Compiled steps on IPUs", override=True)
