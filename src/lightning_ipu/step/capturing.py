"""Captures and compiles one step: makes the StepModule and PopTorch's executor, and starts again when the capture asks for it."""

import functools
from typing import Any, Callable, Dict, FrozenSet, List, Tuple

import torch

from lightning_ipu import options as ipu_options
from lightning_ipu.live.numbers import Needs
from lightning_ipu.live.recapture import Recapture
from lightning_ipu.model_parallel import blocks_seen, marked_loss
from lightning_ipu.step.attention_masks import masks_unread
from lightning_ipu.step.captured_step import CapturedStep, Conditions, no_numbers
from lightning_ipu.step.device import CompiledStep, Device
from lightning_ipu.step.logged import MetricArithmetic, Notes, metrics_of
from lightning_ipu.step.said_to_trace import said_to_trace
from lightning_ipu.step.step_module import FIRST_SLOTS, Call, NoLoss, SlotsExhausted, StepModule
from lightning_ipu.step.watch import StateOnModule, Watch
from lightning_ipu.structures.outputs import Cut
from lightning_ipu.updates import host_update, optimizers

Grow = Callable[[FrozenSet[Any], FrozenSet[Any]], Tuple[FrozenSet[Any], FrozenSet[Any]]]


class Capturing:
    """Makes captured steps for one LightningModule and Trainer.

    Args:
        strategy: whose options, precision and optimizer the steps have.
        device: the IPUs.
        looks_only: the steps are not for running, so what they cost does not matter here.
    """

    def __init__(self, strategy: Any, device: Device, *, looks_only: bool = False) -> None:
        self._strategy, self._device, self._looks_only = strategy, device, looks_only
        self._module = strategy.lightning_module
        self._internal = set(vars(torch.nn.Module())) | set(vars(strategy.lightning.name("core.module", "LightningModule")())) | {"log"}

    def capture(
        self, step: str, call: Call, cut: Cut, tensors: List[torch.Tensor], environment: Dict[Any, Any], conditions: Conditions, grow: Grow
    ) -> CapturedStep:
        """The captured and compiled step, which holds the IPUs.

        Raises:
            MisconfigurationException: the step does something that cannot be done on an IPU; other errors are the user's own.
        """
        strategy = self._strategy
        n_slots = FIRST_SLOTS
        live, fixed = grow(frozenset(), frozenset())
        while True:
            compiled = self._compiled(step, call, cut, environment, live, fixed, n_slots)
            try:
                with blocks_seen(strategy.poptorch) as ipu_ids, masks_unread(), said_to_trace():
                    self._device.compile(compiled, [*no_numbers(cut.n_micro_batches, n_slots), *tensors])
                self._refuse_more_ipus(compiled, ipu_ids, step)
                if compiled.trains and not self._looks_only:
                    self._price(compiled, step, call, cut, tensors, environment, conditions, grow)
                break
            except Recapture as again:
                before = (live, fixed)
                live, fixed = grow(again.live, again.fixed)
                if (live, fixed) == before:
                    raise RuntimeError(f"lightning-ipu: {step} could not be captured: {again.__cause__ or again!r}") from again.__cause__
            except SlotsExhausted:
                n_slots *= 2
            except (NoLoss, MetricArithmetic, StateOnModule) as error:
                raise strategy.lightning.misconfiguration(f"{type(self._module).__name__}.{step}: {error}") from error
        record = compiled.module.captured
        assert record is not None, "PopTorch compiled without running forward"
        return CapturedStep(compiled, record, conditions, call.others, n_slots)

    def _price(self, compiled: CompiledStep, step: str, call: Call, cut: Cut, tensors: List[torch.Tensor], *rest: Any) -> None:
        """Lets the strategy look at what the step costs before it runs. DoesNotFitError: more memory than IPUs have."""
        from lightning_ipu.step.dry_run import layouts

        sizes = self._strategy.sizes(trains=compiled.trains)
        rows = next((tensor.shape[0] for tensor in tensors if tensor.dim()), cut.n_micro_batches)
        layout_at = layouts(self._strategy, step, call, sizes, tensors, rows, *rest)
        self._strategy.planning.look_at(compiled, cut.micro_rows, functools.partial(self._device.drop, compiled), layout_at)

    def _refuse_more_ipus(self, compiled: CompiledStep, ipu_ids: List[int], step: str) -> None:
        strategy = self._strategy
        devices = len(strategy.parallel_devices or [0])
        per_replica = devices // strategy.sizes(trains=compiled.trains).n_replicas
        if ipu_ids and max(ipu_ids) >= per_replica:
            self._device.drop(compiled)
            raise strategy.lightning.misconfiguration(
                f"{step} enters a poptorch.Block with ipu_id={max(ipu_ids)}, but of Trainer(devices={devices}) each replica has "
                f"{per_replica} IPU(s). Blocks inside a step are seen only when it is captured: say how many replicas there are by "
                f"IPUStrategy(training_opts=poptorch.Options().replicationFactor({max(1, devices // (max(ipu_ids) + 1))})), and give as "
                "many devices as replicas and blocks need."
            )

    def _compiled(
        self, step: str, call: Call, cut: Cut, environment: Dict[Any, Any], live: FrozenSet[Any], fixed: FrozenSet[Any], n_slots: int
    ) -> CompiledStep:
        strategy, module = self._strategy, self._module
        poptorch, trains = strategy.poptorch, step == "training_step"
        is_twin = trains and any(other.trains and not other.is_twin for other in self._device.alive)
        metrics = [metric for _, metric in metrics_of(module)]

        weight_in_step = functools.partial(strategy.precision_plugin.weight_in_step, trains=trains)

        def watch(needs: Needs) -> Watch:
            return Watch(module, strategy.trainer, needs, live, fixed, self._internal, metrics, weight_in_step)

        made = StepModule(
            module,
            call,
            watch=watch,
            notes=functools.partial(Notes, strategy.lightning),
            env=environment,
            identity_loss=functools.partial(marked_loss, poptorch) if trains else None,
            context=strategy.precision_plugin.forward_context,
            schedules=(strategy.optimizers, [config.scheduler for config in strategy.lr_scheduler_configs]),
            twin=is_twin,
            n_slots=n_slots,
        )
        given = strategy.training_opts if trains else strategy.inference_opts
        options = ipu_options.step_options(given, poptorch, cut, trains=trains, is_twin=is_twin)
        with strategy.engine(step, cut):
            return self._executor(made, options, cut, trains=trains, is_twin=is_twin)

    def _executor(self, made: StepModule, options: Any, cut: Cut, *, trains: bool, is_twin: bool) -> CompiledStep:
        strategy, poptorch = self._strategy, self._strategy.poptorch
        if not trains:
            return CompiledStep(made, poptorch.inferenceModel(made, options), None, is_twin=False)
        user_optimizer = strategy.optimizers[0]
        # A step that is only looked at belongs to no run.
        on_host = cut.is_part or (strategy.host_updates is not None and strategy.host_updates.is_always)
        if on_host:
            optimizer = host_update.reading_optimizer(poptorch, user_optimizer, made.stand_ins())
        else:
            limit = strategy.trainer.gradient_clip_val
            optimizer = optimizers.device_optimizer(poptorch, user_optimizer, made.stand_ins(), limit)
        executor = poptorch.trainingModel(made, options, optimizer)
        compiled = CompiledStep(made, executor, optimizer, is_twin=is_twin, updates_on_host=on_host)
        compiled.numbers = optimizers.numbers_of(user_optimizer)
        return compiled
