"""A plan applied to a module and its options: BeginBlock on the modules at which stages begin, and what PopTorch has options for.

stages            poptorch.BeginBlock, and an execution strategy in which every block is the next stage
replicas          replicationFactor            gradient_accumulation   Training.gradientAccumulation
device_iterations deviceIterations             n_io_tiles              TensorLocations.numIOTiles
recompute         PopART's autoRecomputation, which is one switch for all stages; poptorch.recomputationCheckpoint after checkpoints, and in
                  stages that are not to recompute after everything that their modules return
optimizer state   TensorLocations.setOptimizerLocation
temporary memory  setAvailableMemoryProportion
partials          Precision.setPartialsType
"""

import functools
from typing import Any, List

import torch
from torch import nn

from lightning_ipu._lightning import Lightning
from lightning_ipu.model_parallel import has_blocks
from lightning_ipu.structures.structure import mapped
from softipu.report.plan import Partials, Plan, Schedule

# popart.RecomputationType. In a pipeline of several IPUs PopTorch recomputes unless it is told not to.
_NO_RECOMPUTATION, _RECOMPUTE_PIPELINE, _RECOMPUTE_ALL = 0, 3, 4


class AppliedPlan:
    """A plan for one run of a module.

    Args:
        plan: from a search, a file, or by hand.
        poptorch: the PopTorch in use.
        lightning: whose errors to raise.
    """

    def __init__(self, plan: Plan, poptorch: Any, lightning: Lightning) -> None:
        self.plan, self._poptorch, self._lightning = plan, poptorch, lightning
        self._hooks: List[Any] = []
        self._stage = 0

    def check_devices(self, devices: int) -> None:
        """MisconfigurationException: the Trainer has another number of IPUs than the plan."""
        plan = self.plan
        if devices != plan.n_ipus:
            raise self._lightning.misconfiguration(
                f"The plan has {plan.replicas} replica(s) of {plan.n_ipus_per_replica} IPU(s), {plan.n_ipus} in all, and "
                f"Trainer(devices={devices!r}) has another number. Use Trainer(devices={plan.n_ipus}), or plan again for {devices} IPUs."
            )

    def check_options(self, given: Any, name: str, *, trains: bool) -> None:
        """MisconfigurationException: the user's options say otherwise than the plan; None are none.

        Args:
            given: the options.
            name: of the argument of IPUStrategy that they are.
            trains: whether they are for training.
        """
        if given is None:
            return
        plan = self.plan
        said = {"replicationFactor": (given.replication_factor, plan.replicas)}
        if trains:
            said["deviceIterations"] = (given.device_iterations, plan.device_iterations)
            said["Training.gradientAccumulation"] = (given.Training.gradient_accumulation, plan.gradient_accumulation)
        for option, (own, planned) in said.items():
            if own not in (1, planned):
                raise self._lightning.misconfiguration(
                    f"{name}.{option}({own}) contradicts the plan, which has {planned}. Leave the option out, or plan again with it."
                )

    def check_micro_batch(self, rows: Any) -> None:
        """MisconfigurationException: the loader's batches have another size than the plan's micro-batches; None is not known."""
        if isinstance(rows, int) and rows != self.plan.micro_batch:
            raise self._lightning.misconfiguration(
                f"The plan is for micro-batches of {self.plan.micro_batch} items, and the training DataLoader has batch_size={rows}. Use "
                f"batch_size={self.plan.micro_batch}: on an IPU a DataLoader's batch is the micro-batch."
            )

    def options(self, given: Any, *, trains: bool) -> Any:
        """Options with what the plan says; ``given`` are the user's or None, and are not changed."""
        plan, poptorch = self.plan, self._poptorch
        options = poptorch.Options() if given is None else given.clone()
        options.replicationFactor(plan.replicas)
        options.setAvailableMemoryProportion({f"IPU{i}": plan.memory_proportion(i) for i in range(plan.n_ipus_per_replica)})
        options.Precision.setPartialsType(torch.half if plan.partials is Partials.HALF else torch.float)
        if plan.n_io_tiles:
            options.TensorLocations.numIOTiles(plan.n_io_tiles)
        if len(plan.stages) > 1:
            # Outside training a pipeline would have to be filled by as many device iterations as it has stages.
            pipelined = trains and plan.schedule is Schedule.PIPELINED
            strategy = poptorch.PipelinedExecution if pipelined else poptorch.ShardedExecution
            options.setExecutionStrategy(strategy(poptorch.AutoStage.AutoIncrement))
        if trains:
            self._training_options(options)
        return options

    def _training_options(self, options: Any) -> None:
        plan = self.plan
        options.deviceIterations(plan.device_iterations)
        options.Training.gradientAccumulation(plan.gradient_accumulation)
        location = self._poptorch.TensorLocationSettings()
        if plan.optimizer_state_off_chip:
            location.useOnChipStorage(False)
        if plan.replicated_tensor_sharding:
            location.useReplicatedTensorSharding(True)
        if plan.optimizer_state_off_chip or plan.replicated_tensor_sharding:
            options.TensorLocations.setOptimizerLocation(location)
        pipelined = len(plan.stages) > 1 and plan.schedule is Schedule.PIPELINED
        if any(stage.recompute for stage in plan.stages):
            options._Popart.set("autoRecomputation", _RECOMPUTE_PIPELINE if pipelined else _RECOMPUTE_ALL)
        elif pipelined:
            options._Popart.set("autoRecomputation", _NO_RECOMPUTATION)

    def mark(self, module: nn.Module) -> None:
        """Begins the plan's stages at modules of ``module``, and keeps what its checkpoints return.

        Raises:
            MisconfigurationException: the module has blocks of its own, or lacks a module that the plan names.
        """
        self._refuse_blocks(module)
        for path, n in self.plan.serialized:
            self._lightning.warn(f"The plan runs the products of {path} in {n} parts. Use poptorch.serializedMatMul in the model for that.")
        for number, stage in enumerate(self.plan.stages[1:], 1):
            part = self._part(module, stage.begin)
            self._poptorch.BeginBlock(part, user_id=f"stage{number}", ipu_id=stage.ipu)
        self._keep_activations(module)

    def unmark(self, module: nn.Module) -> None:
        """Takes it all back."""
        if len(self.plan.stages) > 1:
            self._poptorch.removeBlocks(module)
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _keep_activations(self, module: nn.Module) -> None:
        recomputes = [stage.recompute for stage in self.plan.stages]
        if not any(recomputes):
            return
        for path in self.plan.checkpoints:
            self._hooks.append(self._part(module, path).register_forward_hook(self._keep))
        if all(recomputes):
            return
        begins = {self._part(module, stage.begin): number for number, stage in enumerate(self.plan.stages) if number}
        for part in module.modules():
            if part in begins or part is module:
                self._hooks.append(part.register_forward_pre_hook(functools.partial(self._enter, begins.get(part, 0))))
            if not any(part.children()):
                self._hooks.append(part.register_forward_hook(self._keep_where_kept))

    def _enter(self, stage: int, module: nn.Module, args: Any) -> None:
        self._stage = stage

    def _keep_where_kept(self, module: nn.Module, args: Any, result: Any) -> Any:
        return result if self.plan.stages[self._stage].recompute else self._keep(module, args, result)

    def _keep(self, module: nn.Module, args: Any, result: Any) -> Any:
        return mapped(lambda leaf: self._poptorch.recomputationCheckpoint(leaf) if isinstance(leaf, torch.Tensor) else leaf, result)

    def _refuse_blocks(self, module: nn.Module) -> None:
        if len(self.plan.stages) > 1 and has_blocks(module):
            raise self._lightning.misconfiguration(
                f"{type(module).__name__} has BeginBlocks of its own, and the plan would split it elsewhere. Leave one of the two out: "
                "poptorch.removeBlocks(module), or no plan."
            )

    def _part(self, module: nn.Module, path: str) -> nn.Module:
        try:
            return module.get_submodule(path)
        except AttributeError as error:
            raise self._lightning.misconfiguration(
                f"The plan names the module {path!r}, which {type(module).__name__} does not have: it was made for another model, or for "
                "an older version of it. Plan again: lightning-ipu plan --search."
            ) from error
