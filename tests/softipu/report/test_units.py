import pytest

from softipu.report.units import MEBIBYTES, MIB, bytes_words, counted, flop_unit, percent, three_digits, time_unit


@pytest.mark.parametrize(
    "value, text",
    [
        (0, "0"),
        (0.000123, "1.23e-04"),
        (0.0123, "0.0123"),
        (0.5, "0.500"),
        (9.994, "9.99"),
        (9.996, "10.0"),
        (12.34, "12.3"),
        (99.96, "100"),
        (1234567.0, "1,234,567"),
        (-12.34, "-12.3"),
    ],
)
def test_three_digits(value, text):
    assert three_digits(value) == text


@pytest.mark.parametrize(
    "values, name", [([2.0, 1e-3], "s"), ([0.9], "ms"), ([5e-6, 1e-9], "µs"), ([1e-12], "ns"), ([0.0], "s"), ([], "s")]
)
def test_one_unit_for_a_column_of_seconds(values, name):
    assert time_unit(values).name == name


def test_flops_have_prefixes():
    assert flop_unit([3e12]).full(3e12) == "3.00 TFLOP"


def test_mebibytes_are_named():
    assert MEBIBYTES.full(897 * MIB) == "897 MiB"


@pytest.mark.parametrize("n, text", [(1, "1 stage"), (2, "2 stages"), (1200, "1,200 stages")])
def test_counting(n, text):
    assert counted(n, "stage") == text


def test_percent():
    assert percent(0.4567) == "45.7 %"


def test_a_size_alone_has_the_unit_that_suits_it():
    assert [bytes_words(n) for n in (0, 640, 8220, 0.12 * MIB, 12.3 * MIB)] == ["0 bytes", "640 bytes", "8.03 KiB", "0.120 MiB", "12.3 MiB"]
