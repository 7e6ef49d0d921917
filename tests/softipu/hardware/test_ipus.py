"""Figures of IPUs agree with the vendor's, and every figure has a source."""

import subprocess
import sys
from dataclasses import fields

import pytest

from softipu.errors import Error
from softipu.hardware import BOW, C600, GC2, GC200, IPUS, SYSTEMS, find_system
from softipu.hardware.sourced import figures_of
from softipu.hardware.vertices import LOOPS
from softipu.ops import VectorOp


@pytest.mark.parametrize(
    ("ipu", "half", "single"),
    [(GC2, 124.5, 31.1), (GC200, 250, 62.5), (BOW, 350, 87.5), (C600, 280, 70)],
    ids=lambda v: getattr(v, "name", v),
)
def test_peak_rates_are_the_vendors(ipu, half, single):
    assert ipu.peak_flops_per_second(bits=16) / 1e12 == pytest.approx(half, rel=0.005)
    assert ipu.peak_flops_per_second(bits=32) / 1e12 == pytest.approx(single, rel=0.005)


@pytest.mark.parametrize(("ipu", "mebibytes"), [(GC2, 304), (GC200, 897), (BOW, 897)], ids=lambda v: getattr(v, "name", v))
def test_memory_is_what_poplar_reports(ipu, mebibytes):
    assert ipu.sram_bytes == mebibytes * 2**20


def test_exchange_rate_gives_the_vendors_total():
    assert GC200.exchange_bytes_per_tile_per_cycle * GC200.n_tiles * GC200.clock_hz / 1e12 == pytest.approx(8, rel=0.03)


@pytest.mark.parametrize("value", [*IPUS.values(), *SYSTEMS.values()], ids=lambda v: v.name)
def test_every_figure_has_a_source(value):
    plain = {"name", "ipu", "sources"}
    assert {name for name, _, source in figures_of(value) if source} == {f.name for f in fields(value)} - plain


def test_every_kind_of_vector_arithmetic_has_a_cost_with_a_source():
    assert set(LOOPS) == {kind.value for kind in VectorOp}
    assert all(loop.source for loop in LOOPS.values())


def test_half_addition_takes_three_cycles_for_four_elements():
    assert LOOPS["add"].cycles(400, bits=16) == 300
    assert LOOPS["add"].cycles(400, bits=32) == 600


@pytest.mark.parametrize(
    ("asked", "found"), [("pod16", "m2000-pod16"), ("Bow POD16", "bow-pod16"), ("bow_pod64", "bow-pod64"), ("c600", "c600")]
)
def test_systems_are_found_by_other_spellings(asked, found):
    assert find_system(asked).name == found


def test_unknown_system_lists_the_known():
    with pytest.raises(Error, match="Unknown system 'pod3'. Known are c2, .*bow-pod256"):
        find_system("pod3")


def test_pods_have_four_ipus_a_machine():
    assert find_system("bow-pod64").n_machines == 16


def test_figures_and_their_report_start_without_torch():
    code = "import sys, softipu.report.devices, softipu.hardware; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
