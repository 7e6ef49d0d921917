"""The fit's short way to a prediction is the price."""

import math
from pathlib import Path

import pytest

from softipu.cost.validation.fit import START, cases
from softipu.cost.validation.published import read_published
from softipu.cost.validation.runs import price_run
from softipu.cost.validation.stored import stored
from softipu.hardware import CALIBRATION
from softipu.hardware.calibration.factors import FILE


@pytest.mark.parametrize("calibration", [CALIBRATION, START.with_values(vector_slowdown=1.0, superstep_cycles=4000.0)])
def test_cycles_are_linear_in_the_factors(calibration):
    runs = [run for run in read_published(FILE.with_name("published.json")) if run.id in ("M1", "P8")]
    workloads = stored(Path(__file__).parent / "workloads.json.gz")
    for case in cases(runs, workloads):
        predicted = price_run(case.run, case.captured, calibration).items_per_second
        assert case.log_ratio(calibration) == pytest.approx(math.log(predicted / case.run.items_per_second), rel=1e-9)
