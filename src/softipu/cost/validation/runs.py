"""Prices published runs: one row for each, predicted beside measured."""

import json
from dataclasses import dataclass
from typing import Dict, Iterable, List, Mapping, Optional, Tuple

from softipu.capture import capture
from softipu.capture.random_ops import seed_random_ops
from softipu.cost.price import price
from softipu.cost.validation.families import Model, build
from softipu.cost.validation.layout import optimizer_of, plan_of, precision
from softipu.cost.validation.published import PublishedRun
from softipu.cost.workload import Workload, read_step
from softipu.errors import Error
from softipu.hardware import CALIBRATION, Calibration, find_system
from softipu.passes import run_passes
from softipu.passes.exact.dead_code import DeadCode
from softipu.passes.exact.merge_views import MergeViews
from softipu.passes.exact.remove_aliases import RemoveAliases
from softipu.report.cost_report import CostReport
from softipu.report.validation import ValidationRow

# What changes the work of a step; emulated half arithmetic does not.
_PASSES = (RemoveAliases(), MergeViews(), DeadCode())


@dataclass(frozen=True)
class Captured:
    """A model with its workload; the module itself is not kept."""

    model: Model
    workload: Workload


class Workloads:
    """Workloads of published runs; runs of the same model and micro-batch share one capture.

    Args:
        known: by key; others are captured when they are asked for.
    """

    def __init__(self, known: Optional[Mapping[str, Captured]] = None) -> None:
        self.known: Dict[str, Captured] = dict(known or {})

    def of(self, run: PublishedRun) -> Captured:
        """The workload of a run's step.

        Raises:
            Error: a family, size or precision that is not known, or a run with a problem.
            UnknownOpError: an op without a work rule.
        """
        run.check()
        key = self.key(run)
        if key not in self.known:
            self.known[key] = capture_run(run)
        return self.known[key]

    @staticmethod
    def key(run: PublishedRun) -> str:
        """Equal for runs whose steps do the same."""
        return json.dumps([dict(run.model), run.run["micro_batch"], run.run["phase"], run.run.get("precision", "fp16")], sort_keys=True)


def capture_run(run: PublishedRun) -> Captured:
    """Builds the model of a run without weights, and captures its step."""
    model = build(run.model, micro_batch=int(run.run["micro_batch"]), training=run.training, dtype=precision(run))
    assert model.module is not None
    step, _ = run_passes(seed_random_ops(capture(model.module, model.forward, model.inputs, training=run.training)), _PASSES)
    return Captured(model.without_module(), read_step(step))


def price_run(run: PublishedRun, captured: Captured, calibration: Calibration = CALIBRATION) -> CostReport:
    """The price of one run."""
    workload = captured.workload
    spec = optimizer_of(run, tuple(p.name for p in workload.parameters))
    return price(workload, spec, plan_of(run, captured.model), find_system(run.run["system"]), calibration)


def validate(
    runs: Iterable[PublishedRun], workloads: Optional[Workloads] = None, calibration: Calibration = CALIBRATION
) -> Tuple[ValidationRow, ...]:
    """One row for each run. A run that cannot be priced has a row with the error's message, and the others go on."""
    workloads = workloads or Workloads()
    rows: List[ValidationRow] = []
    for run in runs:
        predicted: Optional[float] = None
        fits: Optional[bool] = None
        error = ""
        try:
            report = price_run(run, workloads.of(run), calibration)
            predicted, fits = report.items_per_second, report.fits
        except Error as failed:
            error = failed.message
        rows.append(
            ValidationRow(run.id, run.family, str(run.run.get("system", "?")), predicted, run.items_per_second, fits, run.fits, error)
        )
    return tuple(rows)
