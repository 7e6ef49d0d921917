"""IPUs and systems with the source of every figure, as text and as data."""

import json
from typing import Any, Dict, List, Tuple

from softipu.errors import Error
from softipu.hardware import IPUS, SYSTEMS
from softipu.hardware.sourced import figures_of
from softipu.report.table import table
from softipu.report.units import three_digits

DEVICES_SCHEMA = 1
FORMATS = ("text", "json")
# How a name ends -> how its figure is shown.
_UNITS: Tuple[Tuple[str, float, str], ...] = (
    ("_bytes_per_second", 1e9, "GB/s"),
    ("_hz", 1e9, "GHz"),
    ("_seconds", 1e-9, "ns"),
    ("sram_bytes_per_tile", 1024.0, "KiB"),
    ("streaming_bytes", 1e9, "GB"),
)


def devices_output(form: str = "text") -> str:
    """What `lightning-ipu devices` lists: "text" or "json".

    Raises:
        Error: another form.
    """
    if form not in FORMATS:
        raise Error(f"Unknown format {form!r} of the list of devices; allowed are {' and '.join(FORMATS)}.")
    return json.dumps(devices_dict(), indent=2) + "\n" if form == "json" else devices_text()


def devices_dict() -> Dict[str, Any]:
    """JSON-able: {"schema": 1, "ipus": {name: {figure: {"value", "source"}}}, "systems": {...}}."""
    return {
        "schema": DEVICES_SCHEMA,
        "ipus": {name: _figures(ipu) for name, ipu in IPUS.items()},
        "systems": {name: {"ipu": system.ipu.name, **_figures(system)} for name, system in SYSTEMS.items()},
    }


def devices_text() -> str:
    """The IPUs, the systems, then every figure with its source."""
    lines = overview_lines() + [""]
    for name, ipu in IPUS.items():
        lines += [f"{name}"] + _sourced_lines(ipu) + [""]
    for name, shown in _one_of_a_kind().items():
        lines += [f"{name}"] + _sourced_lines(SYSTEMS[shown], without=("n_ipus",)) + [""]
    return "\n".join(lines)


def overview_lines() -> List[str]:
    """The IPUs and the systems, a line for each."""
    ipus = [
        [
            ipu.name, str(ipu.n_tiles), three_digits(ipu.sram_bytes / 2**20), three_digits(ipu.clock_hz / 1e9),
            three_digits(ipu.peak_flops_per_second(bits=16) / 1e12), three_digits(ipu.peak_flops_per_second(bits=32) / 1e12),
        ]
        for ipu in IPUS.values()
    ]  # fmt: skip
    systems = [
        [s.name, s.ipu.name, str(s.n_ipus), str(s.n_machines), three_digits(s.n_ipus * s.ipu.peak_flops_per_second(bits=16) / 1e15)]
        for s in SYSTEMS.values()
    ]
    lines = table(("IPU", "tiles", "memory MiB", "clock GHz", "half TFLOPS", "float TFLOPS"), ipus) + [""]
    return lines + table(("system", "IPU", "IPUs", "machines", "half PFLOPS"), systems, left=(0, 1))


def _one_of_a_kind() -> Dict[str, str]:
    """Systems whose figures differ in more than their number of IPUs: what they are called -> one of them."""
    found: Dict[Tuple[Any, ...], List[str]] = {}
    for name, system in SYSTEMS.items():
        key = (system.ipu.name, system.host_is_remote, system.n_ring_links, system.n_ipus_per_machine if system.host_is_remote else 0)
        found.setdefault(key, []).append(name)
    return {", ".join(names): names[-1] for names in found.values()}


def _figures(value: Any) -> Dict[str, Any]:
    return {name: {"value": figure, "source": source} for name, figure, source in figures_of(value)}


def _sourced_lines(value: Any, *, without: Tuple[str, ...] = ()) -> List[str]:
    rows = [[f"  {name}", _shown(name, figure), source] for name, figure, source in figures_of(value) if name not in without]
    return table(("  figure", "value", "source"), rows, left=(0, 2))


def _shown(name: str, figure: Any) -> str:
    if isinstance(figure, bool):
        return "yes" if figure else "no"
    for ending, size, unit in _UNITS:
        if name.endswith(ending):
            return f"{three_digits(figure / size)} {unit}"
    return three_digits(figure) if isinstance(figure, float) else f"{figure:,}"
