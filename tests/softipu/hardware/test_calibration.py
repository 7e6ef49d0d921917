"""Fitted factors: within their ranges, on runs of the file, explained."""

import json

import pytest

from softipu.hardware import CALIBRATION
from softipu.hardware.calibration.factors import FILE, factor_meanings, factor_names


def test_factors_lie_within_the_range_that_the_fit_was_allowed():
    for name in factor_names():
        factor = getattr(CALIBRATION, name)
        assert factor.low <= factor.value <= factor.high, name


def test_every_factor_is_explained():
    assert set(factor_meanings()) == set(factor_names())


def test_fitted_on_runs_of_the_published_file_only():
    published = json.loads(FILE.with_name("published.json").read_text(encoding="utf-8"))
    measured = {e["id"] for e in published["entries"] if "items_per_second" in e["measured"]}
    assert set(CALIBRATION.fitted_on) == measured


def test_other_values_leave_the_rest():
    changed = CALIBRATION.with_values(vector_slowdown=3.0)
    assert changed.vector_slowdown.value == 3.0
    assert changed.superstep_cycles == CALIBRATION.superstep_cycles


def test_unknown_factor_is_refused():
    with pytest.raises(KeyError, match="speed"):
        CALIBRATION.with_values(speed=1.0)
