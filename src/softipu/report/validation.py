"""Predicted beside measured: rows, their text and their JSON."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence

from softipu.report.table import table
from softipu.report.units import counted, percent, three_digits

VALIDATION_SCHEMA = 1


@dataclass(frozen=True)
class ValidationRow:
    """One published run.

    Attributes:
        id, family, system: of the run.
        predicted_items_per_second, measured_items_per_second: over all replicas; None where there is none.
        fits, known_fits: whether the run fits, as predicted and as known; None where it is not.
        error: why the run could not be priced; empty when it was.
    """

    id: str
    family: str
    system: str
    predicted_items_per_second: Optional[float]
    measured_items_per_second: Optional[float]
    fits: Optional[bool]
    known_fits: Optional[bool]
    error: str = ""

    @property
    def ratio(self) -> Optional[float]:
        """Predicted over measured."""
        if self.predicted_items_per_second is None or not self.measured_items_per_second:
            return None
        return self.predicted_items_per_second / self.measured_items_per_second

    def as_dict(self) -> Dict[str, Any]:
        """JSON-able form; "error" only where there is one."""
        data = {
            "id": self.id,
            "predicted_items_per_second": self.predicted_items_per_second,
            "measured_items_per_second": self.measured_items_per_second,
            "ratio": self.ratio,
            "fits": self.fits,
            "known_fits": self.known_fits,
        }
        return {**data, "error": self.error} if self.error else data


@dataclass(frozen=True)
class ValidationSummary:
    """How far off the rows are.

    Attributes:
        n_measured: rows with a measured throughput that were priced.
        median_error_fraction, worst_error_fraction: of |predicted / measured - 1|; None without such rows.
        worst_id: the row of the worst.
        n_fits_known, n_fits_right: rows that are known to fit or not, and those of them that are predicted so.
        n_failed: rows that could not be priced.
    """

    n_measured: int
    median_error_fraction: Optional[float]
    worst_error_fraction: Optional[float]
    worst_id: str
    n_fits_known: int
    n_fits_right: int
    n_failed: int


def summary(rows: Sequence[ValidationRow]) -> ValidationSummary:
    """Median and worst error of throughput, and how many rows' fit is right."""
    errors = sorted((abs(row.ratio - 1), row.id) for row in rows if row.ratio is not None)
    middle = len(errors) // 2
    median = None
    if errors:
        median = errors[middle][0] if len(errors) % 2 else (errors[middle - 1][0] + errors[middle][0]) / 2
    known = [row for row in rows if row.known_fits is not None]
    return ValidationSummary(
        len(errors), median, errors[-1][0] if errors else None, errors[-1][1] if errors else "",
        len(known), sum(row.fits is row.known_fits for row in known), sum(bool(row.error) for row in rows),
    )  # fmt: skip


def validation_dict(rows: Sequence[ValidationRow]) -> Dict[str, Any]:
    """JSON-able: {"schema": 1, "rows": [...], "median_error": ..., "worst_error": ...}."""
    found = summary(rows)
    return {
        "schema": VALIDATION_SCHEMA,
        "rows": [row.as_dict() for row in rows],
        "median_error": found.median_error_fraction,
        "worst_error": found.worst_error_fraction,
    }


def validation_text(rows: Sequence[ValidationRow]) -> str:
    """A table with one line for each run, and a summary below."""
    body = [
        [row.id, row.family, row.system, _number(row.predicted_items_per_second), _number(row.measured_items_per_second),
         "-" if row.ratio is None else f"{row.ratio:.2f}", _yes(row.fits), _yes(row.known_fits)]
        for row in rows
    ]  # fmt: skip
    lines = table(("run", "model", "system", "predicted/s", "measured/s", "ratio", "fits", "known"), body, left=(0, 1, 2, 6, 7))
    found = summary(rows)
    lines.append("")
    if found.median_error_fraction is not None and found.worst_error_fraction is not None:
        lines.append(
            f"Throughput of {counted(found.n_measured, 'run')}: median error {percent(found.median_error_fraction)}, "
            f"worst {percent(found.worst_error_fraction)} ({found.worst_id})."
        )
    if found.n_fits_known:
        lines.append(f"Fits or not, of {counted(found.n_fits_known, 'run')}: {found.n_fits_right} right.")
    lines += _failed(rows)
    return "\n".join(lines) + "\n"


def _failed(rows: Sequence[ValidationRow]) -> List[str]:
    failed = [row for row in rows if row.error]
    return [f"Not priced: {row.id}: {row.error}" for row in failed]


def _number(value: Optional[float]) -> str:
    return "-" if value is None else three_digits(value)


def _yes(value: Optional[bool]) -> str:
    return "-" if value is None else "yes" if value else "no"
