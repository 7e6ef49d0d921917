"""What a compiled training step costs on IPUs, and whether it fits: known before the first call, as on hardware."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Optional, Tuple, Union

from lightning_ipu.step.dry_run import ROOT
from softipu.report.plan import Plan
from softipu.report.plan_report import PlanReport

_log = logging.getLogger("lightning_ipu")


def priced(executor: Any, micro_batch: int, name: str, n_ipus: int, plan: Optional[Plan]) -> Tuple[Any, Optional[PlanReport]]:
    """The layout of a compiled training step and its report without advice; None where it cannot be priced, with a warning that says why.

    Args:
        executor: the software IPU's.
        micro_batch: items.
        name: of the module.
        n_ipus: of the Trainer.
        plan: that was applied, which says more than options and blocks do; None without one.
    """
    from softipu.cost import price
    from softipu.poptorch.executor.layout import layout_of

    try:
        layout = layout_of(executor, micro_batch, root=ROOT)
        runs = layout.plan if plan is None else _as_run(plan, layout.plan)
        cost = price(layout.step, layout.optimizer, runs, system_for(n_ipus))
    except Exception as error:  # noqa: BLE001  whatever a cost model cannot do must not stop a training that runs
        _log.warning("lightning-ipu: the step has no price, so whether it fits on IPUs is unknown: %s: %s", type(error).__name__, error)
        return None, None
    return layout, PlanReport(name, cost, unsupported=layout.unlisted)


def _as_run(plan: Plan, runs: Plan) -> Plan:
    """The plan with what the Trainer's flags may add to it."""
    return replace(
        plan,
        micro_batch=runs.micro_batch,
        gradient_accumulation=runs.gradient_accumulation,
        replicas=runs.replicas,
        device_iterations=runs.device_iterations,
    )


def advised(report: PlanReport, layout: Any, layout_at: Optional[Callable[[int], Any]]) -> PlanReport:
    """The same with what makes it fit.

    Args:
        report: of a step that does not fit.
        layout: of that step.
        layout_at: captures it for other micro-batches; None where it cannot be captured again.
    """
    from softipu.errors import Error
    from softipu.planner import Subject, report_plan

    def step_at(n: int) -> Any:
        if n == report.plan.micro_batch:
            return layout.step
        if layout_at is None:
            raise Error(f"The step is compiled for micro-batches of {report.plan.micro_batch} items and is not captured again for {n}.")
        return layout_at(n).step

    subject = Subject(report.model, step_at, report.plan.micro_batch, layout.optimizer, layout.containers, layout.unlisted)
    try:
        # The same list as `lightning-ipu plan` gives: it may say to use more IPUs than the Trainer has.
        found = report_plan(subject, report.plan, system_for(max(report.plan.n_ipus, _n_ipus_to_advise())))
        return replace(report, remedies=found.remedies)
    except Exception as error:  # noqa: BLE001  that the step does not fit is what must be told, with advice or without
        _log.warning("lightning-ipu: no advice on making the step fit: %s: %s", type(error).__name__, error)
        return report


def _n_ipus_to_advise() -> int:
    from lightning_ipu.planning.plan import DEFAULT_SYSTEM
    from softipu.hardware import find_system

    return find_system(DEFAULT_SYSTEM).n_ipus


def system_for(n_ipus: int) -> Any:
    """The smallest Bow POD with so many IPUs."""
    from softipu.hardware import SYSTEMS

    pods = sorted((s for name, s in SYSTEMS.items() if name.startswith("bow-pod")), key=lambda system: system.n_ipus)
    return next((pod for pod in pods if pod.n_ipus >= n_ipus), pods[-1])


def write(report: PlanReport, folder: Union[str, Path]) -> None:
    """report.html, report.txt, report.json, trace.json and plan.json; a warning where that fails."""
    from softipu.report.plan_file import write_plan

    path = Path(folder)
    texts = {"report.html": report.html, "report.txt": report.text, "report.json": report.json, "trace.json": report.trace}
    try:
        for name, text in texts.items():
            (path / name).write_text(text(), encoding="utf-8")
        write_plan(path / "plan.json", report)
    except Exception as error:  # noqa: BLE001  a report must not stop a training that runs
        _log.warning("lightning-ipu: the report was not written to %s: %s: %s", folder, type(error).__name__, error)
