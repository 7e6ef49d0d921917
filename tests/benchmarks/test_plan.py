"""The benchmark of planning runs, on models that take a moment; nothing here is timed."""

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "plan.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("benchmark_of_plans", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_tiny_model_is_planned_and_measured(benchmark):
    pytest.importorskip("transformers")
    pytest.importorskip("lightning")
    row = benchmark.measure("tiny", "bert", n_layers=1, width=64, tokens=8, accumulate=4, system="bow-pod4")
    assert (row.model, row.n_layers, row.fits) == ("tiny", 1, True)
    assert row.n_ops > 50 and row.plan_seconds > 0 and row.search_seconds > 0 and row.peak_bytes > 1 << 20


def test_points_on_a_line_have_no_distance_from_it(benchmark):
    start, slope, off = benchmark.line_through([(6, 20.0), (12, 32.0), (24, 56.0)])
    assert (start, slope, off) == (pytest.approx(8.0), pytest.approx(2.0), pytest.approx(0.0))


def test_the_farthest_point_says_how_straight_a_line_is(benchmark):
    # The line through 1, 1, 4 at 0, 1, 2 is 0.5 + 1.5 x; at 1 it is 2, which is 100 % off.
    assert benchmark.line_through([(0, 1.0), (1, 1.0), (2, 4.0)]) == (pytest.approx(0.5), pytest.approx(1.5), pytest.approx(1.0))
