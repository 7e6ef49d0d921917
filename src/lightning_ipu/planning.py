"""Whether a LightningModule fits on IPUs, how fast it trains, and how to split it: before anything runs."""

from dataclasses import replace
from typing import Any, Callable, Iterator, Optional, Union

import torch

from lightning_ipu._lightning import PACKAGES, Lightning, is_imported
from lightning_ipu.dry_run import DryStep, dry_fit
from softipu.hardware import System, find_system
from softipu.planner import Space, Subject, report_plan, search_plan
from softipu.report.plan import Plan
from softipu.report.plan_file import read_plan
from softipu.report.plan_report import PlanReport

DEFAULT_SYSTEM = "bow-pod16"


def plan(
    module: Any,
    batch: Any,
    *,
    system: Union[str, System] = DEFAULT_SYSTEM,
    search: bool = False,
    plan: Union[None, str, Plan] = None,
    replicas: int = 1,
    accumulate_grad_batches: int = 1,
    precision: Any = "32-true",
    space: Optional[Space] = None,
) -> PlanReport:
    """What training ``module`` costs on IPUs; nothing is trained, and no memory is taken for activations.

    Args:
        module: a LightningModule; with parameters on the meta device its weights take no memory either.
        batch: what its DataLoader gives: one micro-batch.
        system: by name, such as "bow-pod16" (`lightning-ipu devices` lists them), or a System.
        search: whether to look for the best plan; otherwise the module's own BeginBlocks are priced.
        plan: a plan to price instead, or the path of a plan.json.
        replicas, accumulate_grad_batches, precision: as the Trainer would have them.
        space: what a search may choose from; everything by default.

    Returns:
        A frozen report with ``text()``, ``json()``, ``html()`` and ``trace()``.

    Raises:
        Error: an unknown system, or a plan that names modules which run no op.
        UnknownOpError: an op without a work rule.
        MisconfigurationException: a module that cannot be trained on IPUs; other errors are the module's own.
    """
    lightning = _lightning_of(module)
    trainer = lightning.name("trainer.trainer", "Trainer")(
        accelerator="ipu",
        devices=_devices(module),
        accumulate_grad_batches=accumulate_grad_batches,
        precision=precision,
        max_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    step = dry_fit(type(trainer).fit, trainer, module, train_dataloaders=_OneBatch(batch))
    own = replace(own_plan(step), replicas=replicas)
    return planned(step, own, find_system(system) if isinstance(system, str) else system, search=search, plan=plan, space=space)


def planned(
    step: DryStep,
    own: Plan,
    system: System,
    *,
    search: bool = False,
    plan: Union[None, str, Plan] = None,
    space: Optional[Space] = None,
    say: Callable[[str], None] = lambda text: None,
) -> PlanReport:
    """The report of a step that would be trained.

    Args:
        step: from a dry fit.
        own: the plan that its Trainer and blocks amount to.
        system: what to plan for.
        search, plan, space: as for ``plan``.
        say: told what a search is doing, in words.

    Raises:
        As ``plan`` does.
    """
    subject = subject_of(step, first=max(2, step.micro_batch) if search else step.micro_batch)
    if search:
        return search_plan(subject, own, system, space, say=say)
    given = read_plan(plan) if isinstance(plan, str) else plan
    return report_plan(subject, given if given is not None else own, system)


def own_plan(step: DryStep) -> Plan:
    """The plan that the Trainer, the options and the module's own blocks amount to."""
    plan: Plan = step.layout_at(step.micro_batch).plan
    return plan


def subject_of(step: DryStep, *, first: int) -> Subject:
    """The step for the planner; ``first``: a micro-batch that it may capture."""
    layout = step.layout_at(first)
    captured = {first: layout.step}

    def step_at(n: int) -> Any:
        return captured.pop(n) if n in captured else step.layout_at(n).step

    return Subject(step.name, step_at, first, layout.optimizer, layout.containers, layout.unlisted)


def _lightning_of(module: Any) -> Lightning:
    """The package whose LightningModule this is.

    Raises:
        TypeError: none of them.
    """
    for package in PACKAGES:
        if is_imported(package) and isinstance(module, Lightning(package).name("core.module", "LightningModule")):
            return Lightning(package)
    raise TypeError(
        f"lightning_ipu.plan was given a {type(module).__name__}; it plans a LightningModule of lightning or pytorch_lightning. "
        "Put a plain module into the training_step of one."
    )


class _OneBatch:
    """A loader; a list would be taken for several."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Any]:
        yield self._batch


def _devices(module: torch.nn.Module) -> int:
    """As many IPUs as the module's blocks name, rounded up to what IPUs come in."""
    from lightning_ipu.model_parallel import ipus_of

    return 1 << (ipus_of(module) - 1).bit_length()
