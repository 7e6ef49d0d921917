"""Whether a LightningModule fits on IPUs, how fast it trains, and how to split it: before anything runs."""

from dataclasses import replace
from typing import Any, Callable, Iterator, Optional, Tuple, Union

import torch

from lightning_ipu._lightning import PACKAGES, Lightning, is_imported
from lightning_ipu.planning.quiet import quiet
from lightning_ipu.planning.rare_collection import rare_collection
from lightning_ipu.step.dry_run import DryStep, dry_fit
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
    found = find_system(system) if isinstance(system, str) else system
    lightning = _lightning_of(module)
    with rare_collection(), quiet():
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
        return planned(step, found, search=search, plan=plan, replicas=lambda own: replicas, space=lambda own: space)


def planned(
    step: DryStep,
    system: System,
    *,
    search: bool = False,
    plan: Union[None, str, Plan] = None,
    replicas: Callable[[Plan], int] = lambda own: own.replicas,
    space: Callable[[Plan], Optional[Space]] = lambda own: None,
    say: Callable[[str], None] = lambda text: None,
) -> PlanReport:
    """The report of a step that would be trained.

    Args:
        step: from a dry fit.
        system: what to plan for.
        search, plan: as for ``plan``.
        replicas: how many there are, from the plan that the step's Trainer and blocks amount to.
        space: what a search may choose from, from the same.
        say: told what a search is doing, in words.

    Raises:
        As ``plan`` does.
    """
    # A search tells what grows with the micro-batch from what does not by two captures, of which 1 item is a poor one.
    first = max(2, step.micro_batch) if search else step.micro_batch
    layout = step.layout_at(first)
    own = replace(layout.plan, micro_batch=step.micro_batch)
    own = replace(own, replicas=replicas(own))
    subject = _subject(step, layout, first)
    if search:
        return search_plan(subject, own, system, space(own), say=say)
    given = read_plan(plan) if isinstance(plan, str) else plan
    return report_plan(subject, given if given is not None else own, system)


def unsupported_ops(step: DryStep) -> Tuple[str, ...]:
    """Ops of the step that PopTorch does not list, with the lines that call them."""
    found: Tuple[str, ...] = step.layout_at(step.micro_batch).unlisted
    return found


def _subject(step: DryStep, layout: Any, micro_batch: int) -> Subject:
    captured = {micro_batch: layout.step}

    def step_at(n: int) -> Any:
        return captured.pop(n) if n in captured else step.layout_at(n).step

    return Subject(step.name, step_at, micro_batch, layout.optimizer, layout.containers, layout.unlisted)


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
