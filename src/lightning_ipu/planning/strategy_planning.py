"""What a strategy does about plans: applies one to the run, and prices the training step before the first call."""

from pathlib import Path
from typing import Any, Callable, Optional

from lightning_ipu import backend
from lightning_ipu.loading.cutting import Sizes


class StrategyPlanning:
    """The plan and the report of a strategy.

    Args:
        strategy: whose module, options and devices.
        plan: a Plan, the path of a plan.json, or None.
        report_dir: folder for the report, or None.
        allow_oom: train also what does not fit.

    Raises:
        Error: a plan that cannot be read.
    """

    def __init__(self, strategy: Any, plan: Optional[Any], report_dir: Any, *, allow_oom: bool) -> None:
        self._strategy, self._report_dir, self._allow_oom = strategy, report_dir, allow_oom
        self._plan, self._planned_model = _read(plan)
        self._source = plan
        self._applied: Optional[Any] = None
        self.report: Optional[Any] = None

    def begin(self) -> None:
        """Applies the plan to the module of a run that begins. MisconfigurationException: the two do not go together."""
        strategy = self._strategy
        if strategy.trainer.state.fn == "fit":
            self.report = None
            if self._report_dir is not None:
                self._make_folder()
        if self._plan is None or self._applied is not None:
            return
        applied = self._made()
        applied.check_devices(len(strategy.parallel_devices or [0]))
        applied.check_options(strategy._training_opts, "training_opts", trains=True)
        applied.check_options(strategy._inference_opts, "inference_opts", trains=False)
        self._compare_models()
        applied.mark(strategy.lightning_module)
        self._applied = applied

    def end(self) -> None:
        """Takes the plan off the module."""
        if self._applied is not None:
            self._applied.unmark(self._strategy.lightning_module)
            self._applied = None

    def options(self, given: Any, *, trains: bool) -> Any:
        """The user's options with what the plan says; as they are without one."""
        return given if self._plan is None else self._made().options(given, trains=trains)

    def check_loader(self, sizes: Sizes) -> None:
        """MisconfigurationException: a training loader whose batches are not the plan's micro-batches."""
        if self._plan is not None:
            self._made().check_micro_batch(sizes.micro_rows)

    def look_at(self, compiled: Any, micro_batch: Optional[int], drop: Callable[[], None], layout_at: Callable[[int], Any]) -> None:
        """Prices the first training step of a run on the software IPU, and writes the report.

        Args:
            compiled: the step.
            micro_batch: items, or None where the batch does not tell.
            drop: frees the step.
            layout_at: captures it for other micro-batches, once it is freed.

        Raises:
            DoesNotFitError: it needs more memory than an IPU has, unless that is allowed.
        """
        if not compiled.trains or self.report is not None or backend.choose().name != "software":
            return
        from lightning_ipu.planning import fit_check

        strategy = self._strategy
        name, devices = type(strategy.lightning_module).__name__, len(strategy.parallel_devices or [0])
        layout, report = fit_check.priced(compiled.executor, micro_batch or 1, name, devices, self._plan)
        if report is None:
            return
        if not report.fits:
            if not self._allow_oom:
                drop()
            report = fit_check.advised(report, layout, layout_at if not self._allow_oom else None)
        self.report = report
        if self._report_dir is not None:
            fit_check.write(report, self._report_dir)
        if not self._allow_oom:
            from softipu.planner import require_fit

            require_fit(report)

    def _compare_models(self) -> None:
        """Warns about a plan of another model, whose modules may have the same names."""
        strategy = self._strategy
        name = type(strategy.lightning_module).__name__
        if self._planned_model not in (None, name):
            strategy.lightning.warn(
                f"{self._source} was made for {self._planned_model} and is applied to {name}. Plan again if they are not of one size."
            )

    def _make_folder(self) -> None:
        try:
            Path(self._report_dir).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._strategy.lightning.misconfiguration(
                f"IPUStrategy(report_dir={str(self._report_dir)!r}) cannot be made: {error.strerror}. Give a folder that is there "
                "or can be made."
            ) from error

    def _made(self) -> Any:
        if self._applied is not None:
            return self._applied
        from lightning_ipu.planning.applied_plan import AppliedPlan

        return AppliedPlan(self._plan, self._strategy.poptorch, self._strategy.lightning)


def _read(plan: Any) -> Any:
    """The plan that was given, or that is in a file, with the name of the model that the file was made for.

    Raises:
        TypeError: neither.
        Error: a file that cannot be read.
    """
    from softipu.report.plan import Plan
    from softipu.report.plan_file import planned_model, read_plan

    if plan is None or isinstance(plan, Plan):
        return plan, None
    if isinstance(plan, (str, Path)):
        return read_plan(plan), planned_model(plan)
    raise TypeError(
        f"IPUStrategy(plan={plan!r}) is a {type(plan).__name__}. Give the path of a plan.json, which `lightning-ipu plan --search` writes, "
        "or the plan of a report: lightning_ipu.plan(module, batch, search=True).plan."
    )
