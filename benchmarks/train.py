"""Training speed, pair by pair in one run: Trainer(accelerator="ipu") on the software IPU against Lightning and PyTorch on the CPU.

    python benchmarks/train.py                                    everything; the machine should do nothing else
    python benchmarks/train.py --models mlp,gpt --engines interpreter --pairs 3
    python benchmarks/train.py --json results.json

Ours and theirs train in turn (ours, theirs, ours, theirs, ...) for the same time. A pair is one turn of each, a ratio is our weight
updates per second over theirs in one pair, so that what disturbs the machine for longer than a turn disturbs both.
"""

import argparse
import json
import statistics
import sys
from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Optional, TextIO, Tuple

from contenders import MATMUL_SIZE
from machine import describe
from turns import Contender
from work import matmul_flops
from workloads import WORKLOADS

AGAINST = ("lightning-cpu", "lightning-compile", "torch-loop", "poptorch-loop")
ENGINES = ("interpreter", "compiled")
OURS = ("plugin", "poptorch-loop")


@dataclass(frozen=True)
class Row:
    """One comparison: our throughput over theirs."""

    model: str
    engine: str
    device_iterations: int
    against: str
    ratio_median: float
    ratio_min: float
    ratio_max: float
    pairs: int


@dataclass(frozen=True)
class Speed:
    """One contender over all its turns.

    Attributes:
        updates_per_second: median.
        peak_fraction: FLOPs of its matrix products per second, over those of one large product; None where they were not counted.
        seconds_to_first_update: from the start of the contender's own code, imports of torch excepted.
    """

    model: str
    contender: str
    updates_per_second: float
    peak_fraction: Optional[float]
    seconds_to_first_update: float
    peak_rss_bytes: int


class Field:
    """All contenders of one model, alive side by side; one runs at a time."""

    def __init__(self, model: str, given: argparse.Namespace, log: Optional[TextIO]) -> None:
        self.model, self._given, self._log = model, given, log
        self._alive: Dict[str, Contender] = {}
        self._n_updates: Dict[str, int] = {}
        self._speeds: Dict[str, List[float]] = {}

    def contender(self, name: str, engine: str = "", device_iterations: int = 1) -> str:
        """Starts a contender that does not run yet; returns its key."""
        key = f"{name} {engine} D={device_iterations}" if engine else name
        if key not in self._alive:
            print(f"  starting {key} ...", end="", flush=True, file=sys.stderr)
            arguments = ["--engine", engine, "--device-iterations", str(device_iterations)] if engine else []
            one = Contender(name, self.model, arguments, self._given.threads, self._given.clock, self._log)
            print(f" {one.seconds_to_first_update:.1f} s to its first update", file=sys.stderr)
            self._alive[key] = one
            rate = one.run(2)
            self._n_updates[key] = max(1, round(one.run(max(1, round(rate * 0.3))) * self._given.seconds))
        return key

    def run(self, key: str) -> float:
        speed = self._alive[key].run(self._n_updates[key])
        self._speeds.setdefault(key, []).append(speed)
        return speed

    def compare(self, ours: str, theirs: str) -> List[float]:
        """Ratios of the pairs; the order within a pair changes from pair to pair."""
        ratios = []
        for pair in range(self._given.pairs):
            first, second = (ours, theirs) if pair % 2 == 0 else (theirs, ours)
            speeds = {first: self.run(first), second: self.run(second)}
            ratios.append(speeds[ours] / speeds[theirs])
        return ratios

    def speeds(self, flops_per_update: Optional[float], peak_flops: float) -> List[Speed]:
        found = []
        for key, values in self._speeds.items():
            rate = statistics.median(values)
            fraction = rate * flops_per_update / peak_flops if flops_per_update and peak_flops else None
            one = self._alive[key]
            found.append(Speed(self.model, key, rate, fraction, one.seconds_to_first_update, one.peak_rss_bytes))
        return found

    def stop(self) -> None:
        for one in self._alive.values():
            one.stop()


def measure(model: str, given: argparse.Namespace, log: Optional[TextIO]) -> Tuple[List[Row], List[Speed]]:
    """All rows of one model."""
    field = Field(model, given, log)
    rows: List[Row] = []
    peaks: List[float] = []
    try:
        peak = Contender("matmul", model, [], given.threads, given.clock, log)
        n_products = max(1, round(peak.run(2) * 0.5))
        for against in given.against:
            for engine in given.engines:
                for device_iterations in given.device_iterations or WORKLOADS[model].device_iterations:
                    if against == "poptorch-loop" and given.ours == "poptorch-loop":
                        continue
                    ours = field.contender(given.ours, engine, device_iterations)
                    same_engine = against == "poptorch-loop"
                    theirs = field.contender(against, engine, device_iterations) if same_engine else field.contender(against)
                    ratios = field.compare(ours, theirs)
                    peaks.append(peak.run(n_products) * 2 * MATMUL_SIZE**3)
                    row = Row(model, engine, device_iterations, against, statistics.median(ratios), min(ratios), max(ratios), len(ratios))
                    rows.append(row)
                    print(_row_text(row), flush=True)
        peak.stop()
        flops = matmul_flops(WORKLOADS[model])
        return rows, field.speeds(flops, statistics.median(peaks) if peaks else 0.0)
    finally:
        field.stop()


def _row_text(row: Row) -> str:
    return (
        f"{row.model:<15} {row.engine:<12} {row.device_iterations:>3}  {row.against:<18} "
        f"{row.ratio_median:>7.2f} {row.ratio_min:>7.2f} {row.ratio_max:>7.2f} {row.pairs:>6}"
    )


_HEAD = f"{'model':<15} {'engine':<12} {'D':>3}  {'against':<18} {'median':>7} {'min':>7} {'max':>7} {'pairs':>6}"


def _speed_text(speed: Speed) -> str:
    share = f"{100 * speed.peak_fraction:>8.1f}" if speed.peak_fraction is not None else f"{'-':>8}"
    name = f"{speed.model:<15} {speed.contender:<34}"
    return f"{name} {speed.updates_per_second:>11.3g} {share} {speed.seconds_to_first_update:>12.1f} {speed.peak_rss_bytes / 2**20:>9.0f}"


_SPEED_HEAD = f"{'model':<15} {'contender':<34} {'updates/s':>11} {'% peak':>8} {'to first, s':>12} {'RSS, MiB':>9}"


def _listed(allowed: Tuple[str, ...], what: str) -> Any:
    def read(text: str) -> List[str]:
        names = [name for name in text.split(",") if name]
        unknown = [name for name in names if name not in allowed]
        if unknown or not names:
            raise argparse.ArgumentTypeError(f"unknown {what} {', '.join(unknown) or repr(text)}; allowed: {', '.join(allowed)}")
        return names

    return read


def arguments(argv: Optional[List[str]] = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    models = tuple(WORKLOADS)
    parser.add_argument("--models", type=_listed(models, "model"), default=list(models), help=f"comma-separated, of {', '.join(models)}")
    parser.add_argument("--engines", type=_listed(ENGINES, "engine"), default=list(ENGINES), help="comma-separated")
    parser.add_argument("--against", type=_listed(AGAINST, "opponent"), default=list(AGAINST), help="comma-separated")
    parser.add_argument("--ours", choices=OURS, default="plugin", help="what is compared with the others (default: plugin)")
    parser.add_argument("--device-iterations", type=lambda text: [int(n) for n in text.split(",")], help="instead of the models' own")
    parser.add_argument("--pairs", type=int, default=7, help="per comparison (default: 7)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one turn, about (default: 1)")
    parser.add_argument("--threads", type=int, help="of every contender (default: PyTorch's own choice)")
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall",
        help="cpu counts the time of the processor, with --threads 1 an estimate on a machine that does other things (default: wall)",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="writes the results")
    parser.add_argument("--log", metavar="FILE", help="keeps what contenders print")
    return parser.parse_args(argv)


def main(argv: Optional[List[str]] = None) -> int:
    given = arguments(argv)
    log = open(given.log, "w") if given.log else None
    machine = describe(given.threads)
    print(machine.text())
    print(_HEAD)
    rows: List[Row] = []
    speeds: List[Speed] = []
    for model in given.models:
        more_rows, more_speeds = measure(model, given, log)
        rows += more_rows
        speeds += more_speeds
        if given.json:  # after every model, so that a run that is stopped leaves what it has
            results = {
                "schema": 1,
                "rows": [asdict(row) for row in rows],
                "speeds": [asdict(s) for s in speeds],
                "machine": asdict(machine),
                "clock": given.clock,
            }
            with open(given.json, "w") as file:
                json.dump(results, file, indent=1)
    print(f"\n{_SPEED_HEAD}")
    for speed in speeds:
        print(_speed_text(speed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
