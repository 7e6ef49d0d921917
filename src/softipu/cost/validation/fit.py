"""Fits the calibration to published throughput, and says how well it holds for families that it was not fitted on.

Minimises the sum over runs of Huber's loss of log(predicted / measured) by damped Gauss-Newton steps within each factor's range. The loss
grows linearly beyond 10 %, so that a run bound by what the model does not know, such as a host that decodes images, pulls no more than
others.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Sequence, Tuple

import torch

from softipu.cost.stage_time import StageCycles, between
from softipu.cost.stages import StageOps, split
from softipu.cost.step_time import price_stages, time_of
from softipu.cost.validation.layout import optimizer_of, plan_of
from softipu.cost.validation.published import PublishedRun
from softipu.cost.validation.runs import Captured, Workloads
from softipu.hardware import Calibration, System, find_system
from softipu.hardware.calibration.factors import Factor, factor_names
from softipu.report.plan import Plan

_HUBER = 0.1
_N_STEPS = 12
_STEP_FRACTION = 0.02  # of a factor, for its derivative
_SUPERSTEP = 1000.0  # cycles between the corners of a case
_N_DIGITS = 3  # that a fit on so few runs is worth

START = Calibration(
    vector_slowdown=Factor(1.5, 1.0, 8.0),
    superstep_cycles=Factor(1000.0, 0.0, 5000.0),
    call_seconds=Factor(0.005, 0.0, 0.03),
    host_sync_seconds=Factor(0.0002, 0.0, 0.001),
)
"""Where a fit begins, and the ranges that it keeps."""


@dataclass(frozen=True)
class Case:
    """A measured run, laid out once.

    Attributes:
        corners: cycles of its stages with both factors that they depend on at nought, with the vector arithmetic's at 1 more, and with
            the superstep's at 1,000 more. Cycles are linear in both, so they tell those of every calibration.
    """

    run: PublishedRun
    captured: Captured
    plan: Plan
    stages: Tuple[StageOps, ...]
    system: System
    corners: Tuple[Tuple[StageCycles, ...], Tuple[StageCycles, ...], Tuple[StageCycles, ...]]

    def log_ratio(self, calibration: Calibration) -> float:
        """log(predicted / measured)."""
        spec = optimizer_of(self.run, tuple(p.name for p in self.captured.workload.parameters))
        time = time_of(self.captured.workload, self.stages, self._cycles(calibration), spec, self.plan, self.system, calibration)
        assert self.run.items_per_second is not None
        return math.log(time.items_per_second / self.run.items_per_second)

    def _cycles(self, calibration: Calibration) -> Tuple[StageCycles, ...]:
        slowdown, supersteps = calibration.vector_slowdown.value - 1, calibration.superstep_cycles.value / _SUPERSTEP
        # What is between base and the two corners is added up: p + (a - base) * s + (b - base) * t, as lines through p, a and b.
        half = [(between(base, slower, 2 * slowdown), between(base, longer, 2 * supersteps)) for base, slower, longer in zip(*self.corners)]
        return tuple(between(one, other, 0.5) for one, other in half)


@dataclass(frozen=True)
class LeftOut:
    """What a calibration without one family says of it.

    Attributes:
        family: that was left out.
        calibration: fitted on the others.
        ratios: predicted over measured, by run.
    """

    family: str
    calibration: Calibration
    ratios: Dict[str, float]


def cases(runs: Sequence[PublishedRun], workloads: Workloads) -> List[Case]:
    """The runs that have a measured throughput."""
    found = []
    for run in runs:
        if run.items_per_second is not None:
            captured = workloads.of(run)
            plan = plan_of(run, captured.model)
            system = find_system(run.run["system"])
            stages = split(captured.workload, plan)
            found.append(Case(run, captured, plan, stages, system, _corners(captured, stages, plan, system)))
    return found


def _corners(captured: Captured, stages: Tuple[StageOps, ...], plan: Plan, system: System) -> Tuple[Any, Any, Any]:
    bases = ({"vector_slowdown": 1.0}, {"vector_slowdown": 2.0}, {"vector_slowdown": 1.0, "superstep_cycles": _SUPERSTEP})
    calibrations = (START.with_values(**{"superstep_cycles": 0.0, **values}) for values in bases)
    first, second, third = (price_stages(captured.workload, stages, plan, system, one) for one in calibrations)
    return first, second, third


def fit(given: Sequence[Case], start: Calibration = START) -> Calibration:
    """The calibration that fits ``given`` best, rounded to three digits; the ranges of ``start`` are kept."""
    names = factor_names()
    ranges = [getattr(start, name) for name in names]
    units = [max(abs(r.value), (r.high - r.low) / 100) for r in ranges]
    at = [r.value / unit for r, unit in zip(ranges, units)]

    def calibration(point: Sequence[float]) -> Calibration:
        return start.with_values(**{n: min(r.high, max(r.low, p * u)) for n, p, u, r in zip(names, point, units, ranges)})

    def residuals(point: Sequence[float]) -> torch.Tensor:
        values = calibration(point)
        return torch.tensor([case.log_ratio(values) for case in given], dtype=torch.float64)

    def clip(point: Sequence[float]) -> List[float]:
        return [min(r.high / u, max(r.low / u, p)) for p, u, r in zip(point, units, ranges)]

    at = _minimise(residuals, clip, at)
    best = calibration(at)
    fitted = start.with_values(**{name: float(f"{getattr(best, name).value:.{_N_DIGITS}g}") for name in names})
    return replace(fitted, fitted_on=tuple(case.run.id for case in given))


def _minimise(
    residuals: Callable[[Sequence[float]], torch.Tensor], clip: Callable[[Sequence[float]], List[float]], at: List[float]
) -> List[float]:
    now = residuals(at)
    damping = 1e-2
    for _ in range(_N_STEPS):
        columns = []
        for i in range(len(at)):
            moved = list(at)
            moved[i] += _STEP_FRACTION
            columns.append((residuals(moved) - now) / _STEP_FRACTION)
        jacobian = torch.stack(columns, dim=1)
        weights = torch.clamp(_HUBER / now.abs().clamp_min(1e-12), max=1.0)
        normal = jacobian.T @ (weights[:, None] * jacobian)
        gradient = jacobian.T @ (weights * now)
        while damping < 1e6:
            step = torch.linalg.solve(normal + damping * torch.diag(normal.diagonal() + 1e-9), gradient)
            there = clip([a - float(s) for a, s in zip(at, step)])
            then = residuals(there)
            if _loss(then) < _loss(now):
                break
            damping *= 4
        else:
            return at
        gained = _loss(now) - _loss(then)
        at, now, damping = there, then, damping / 4
        if gained < 1e-6 * _loss(now):
            break
    return at


def _loss(values: torch.Tensor) -> float:
    size = values.abs()
    return float(torch.where(size <= _HUBER, size**2 / 2, _HUBER * (size - _HUBER / 2)).sum())


def leave_one_family_out(given: Sequence[Case], start: Calibration = START) -> List[LeftOut]:
    """For every family, what a fit on the others says of its runs."""
    found = []
    for family in dict.fromkeys(case.run.family for case in given):
        others = [case for case in given if case.run.family != family]
        calibration = fit(others, start)
        ratios = {case.run.id: math.exp(case.log_ratio(calibration)) for case in given if case.run.family == family}
        found.append(LeftOut(family, calibration, ratios))
    return found
