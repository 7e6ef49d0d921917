"""The page of the documentation that says how well the model predicts published runs."""

from typing import List, Mapping, Optional, Sequence

from softipu.cost.validation.fit import LeftOut
from softipu.cost.validation.layout import ASSUMPTIONS
from softipu.hardware import Calibration
from softipu.hardware.calibration.factors import factor_meanings, factor_names
from softipu.report.units import percent, three_digits
from softipu.report.validation import ValidationRow, summary

_HEAD = """# Validation

<!-- Written by tools/calibrate.py; do not edit. -->

What the machine model predicts for published runs, beside what was measured. `lightning-ipu validate FILE` prints the same table
for any file of this format; the formulas are in [the cost model](cost_model.md).
"""


def validation_page(
    rows: Sequence[ValidationRow],
    calibration: Calibration,
    left_out: Sequence[LeftOut],
    outside: Sequence[ValidationRow],
    sources: Mapping[str, str],
) -> str:
    """Markdown: the table, the fitted factors, what a fit without a family says of that family, and runs that nothing was fitted to.

    Args:
        outside: those runs.
        sources: of them, by id.
    """
    found = summary(rows)
    assert found.median_error_fraction is not None and found.worst_error_fraction is not None
    lines = [
        _HEAD,
        f"Throughput of {found.n_measured} runs: median error {percent(found.median_error_fraction)}, "
        f"worst {percent(found.worst_error_fraction)} ({found.worst_id}). "
        f"Fits or not, of {found.n_fits_known} runs: {found.n_fits_right} right.",
        "",
        "| run | model | system | predicted items/s | measured items/s | ratio | fits | known |",
        "|---|---|---|--:|--:|--:|---|---|",
        *(_row(row) for row in rows),
        "",
        *_factors(calibration),
        *_families(left_out),
        *_outside(outside, sources),
        "## Assumed where a run says nothing",
        "",
        *(f"- {sentence[0].upper()}{sentence[1:]}." for sentence in ASSUMPTIONS),
    ]
    return "\n".join(lines) + "\n"


def _row(row: ValidationRow) -> str:
    cells = [
        row.id, row.family, row.system, _rounded(row.predicted_items_per_second), _rounded(row.measured_items_per_second),
        "" if row.ratio is None else f"{row.ratio:.2f}", _yes(row.fits), _yes(row.known_fits),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _factors(calibration: Calibration) -> List[str]:
    meanings = factor_meanings()
    lines = [
        "## Fitted factors",
        "",
        f"Fitted on the throughput of {len(calibration.fitted_on)} runs: {', '.join(calibration.fitted_on)}.",
        "",
        "| factor | value | allowed range | what it is |",
        "|---|--:|---|---|",
    ]
    for name in factor_names():
        factor = getattr(calibration, name)
        lines.append(f"| `{name}` | {factor.value:.3g} | {factor.low:.3g} to {factor.high:.3g} | {meanings[name]} |")
    return [*lines, ""]


def _families(left_out: Sequence[LeftOut]) -> List[str]:
    errors = sorted(abs(ratio - 1) for one in left_out for ratio in one.ratios.values())
    middle = len(errors) // 2
    median = errors[middle] if len(errors) % 2 else (errors[middle - 1] + errors[middle]) / 2
    lines = [
        "## Leave one family out",
        "",
        "The factors fitted without any run of a family, and what they then predict for it (predicted / measured).",
        f"Over all families: median error {percent(median)}, worst {percent(errors[-1])}.",
        "",
        "| family left out | ratios | factors |",
        "|---|---|---|",
    ]
    for one in left_out:
        ratios = ", ".join(f"{run} {ratio:.2f}" for run, ratio in one.ratios.items())
        factors = ", ".join(f"{getattr(one.calibration, name).value:.3g}" for name in factor_names())
        lines.append(f"| {one.family} | {ratios} | {factors} |")
    return [*lines, ""]


def _outside(rows: Sequence[ValidationRow], sources: Mapping[str, str]) -> List[str]:
    found = summary(rows)
    assert found.median_error_fraction is not None and found.worst_error_fraction is not None
    return [
        "## Runs that nothing was fitted to",
        "",
        f"Throughput of {found.n_measured} other published runs: median error {percent(found.median_error_fraction)}, "
        f"worst {percent(found.worst_error_fraction)} ({found.worst_id}). Their configurations stand in",
        "tests/softipu/cost/validation/outside.json. What a source leaves open (the split, bounds of temporary memory) is that of",
        "the same model in graphcore/examples, so part of the error is that of the configuration. V1 reads photographs on its host,",
        "and its source does not say which IPUs it ran on. P1 above is another measurement of what X13 measures: a slower host",
        "makes the difference.",
        "",
        "| run | model | system | predicted items/s | measured items/s | ratio | source |",
        "|---|---|---|--:|--:|--:|---|",
        *(
            f"| {row.id} | {row.family} | {row.system} | {_rounded(row.predicted_items_per_second)} | "
            f"{_rounded(row.measured_items_per_second)} | {row.ratio or 0:.2f} | {sources[row.id]} |"
            for row in rows
        ),
        "",
    ]


def _rounded(value: Optional[float]) -> str:
    return "" if value is None else three_digits(value)


def _yes(value: Optional[bool]) -> str:
    return "" if value is None else "yes" if value else "no"
