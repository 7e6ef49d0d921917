"""Plan reports: of one plan, and of a search."""

from dataclasses import replace
from typing import Callable, Optional

from softipu.cost import price
from softipu.errors import DoesNotFitError
from softipu.hardware import System
from softipu.planner.advice import remedies
from softipu.planner.search import Search
from softipu.planner.space import Space
from softipu.planner.subject import Subject
from softipu.report.plan import Plan
from softipu.report.plan_report import PlanReport
from softipu.report.text import does_not_fit_text


def report_plan(subject: Subject, plan: Plan, system: System) -> PlanReport:
    """What ``plan`` costs, and what to do where it does not fit.

    Raises:
        UnknownOpError: an op without a work rule.
        Error: a plan that names modules which run no op, or needs more IPUs than the system has.
    """
    batches = subject.batches()
    cost = price(batches.at(plan.micro_batch), subject.optimizer, plan, system)
    advice = () if cost.fits else remedies(batches, subject.optimizer, cost, system)
    return PlanReport(subject.name, cost, advice, unsupported=subject.unsupported)


def search_plan(
    subject: Subject, base: Plan, system: System, space: Optional[Space] = None, *, say: Callable[[str], None] = lambda text: None
) -> PlanReport:
    """The best plan for ``system``; where nothing fits, the one that comes closest.

    Args:
        subject: what is planned.
        base: what the search leaves as it is: partial sums, temporary memory, device iterations.
        system: what to plan for.
        space: what to choose from.
        say: told what is going on, in words.

    Raises:
        As report_plan does; Error also for a space that the system does not have.
    """
    batches = subject.batches()
    search = Search(batches, subject.optimizer, base, system, space or Space(), say=say)
    found = search.run()
    if found.best is not None:
        return PlanReport(subject.name, found.best, search=found.result, unsupported=subject.unsupported)
    cost = found.closest or price(batches.at(base.micro_batch), subject.optimizer, replace(base, replicas=1), system)
    return PlanReport(subject.name, cost, search=found.result, unsupported=subject.unsupported)


def require_fit(report: PlanReport) -> None:
    """Raises DoesNotFitError, with what overflows and what to do, unless the plan fits."""
    if not report.fits:
        raise DoesNotFitError(does_not_fit_text(report), type="out_of_memory")
