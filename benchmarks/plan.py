"""Time and memory of planning: BERT of width 1024 with 6 to 48 layers, then BERT-Large and GPT-2 XL whole.

    python benchmarks/plan.py
    python benchmarks/plan.py --layers 2,4 --width 64 --tokens 16 --whole "" --json plan.json

Each model is planned in a process of its own. "plan" captures and prices the layout as it is; "search" then looks for the best one, with
captures of its own. Seconds are the processor's, imports and the making of the model left out; memory is the peak of the process. The last
lines put a straight line through the seconds: what each layer takes, and how far the farthest model lies from it.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

WHOLE: Dict[str, Dict[str, Any]] = {
    "bert-large": {"kind": "bert", "n_layers": 24, "width": 1024, "tokens": 128, "accumulate": 64},
    "gpt2-xl": {"kind": "gpt2", "n_layers": 48, "width": 1600, "tokens": 1024, "accumulate": 1},
}
MICRO_BATCH = {"bert": 4, "gpt2": 1}


@dataclass(frozen=True)
class Planned:
    """One model.

    Attributes:
        n_ops: that the step runs, forward and backward.
        plan_seconds, search_seconds: of the processor.
        wall_seconds: of both, by the clock on the wall.
        peak_bytes: resident memory of the process at most.
        fits: whether the search found a plan that fits.
    """

    model: str
    n_layers: int
    n_ops: int
    plan_seconds: float
    search_seconds: float
    wall_seconds: float
    peak_bytes: int
    fits: bool


def line_through(points: Sequence[Tuple[float, float]]) -> Tuple[float, float, float]:
    """(what x = 0 gives, what each more adds, largest |y - line| / y) of the straight line with the least squares."""
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    start = mean_y - slope * mean_x
    return start, slope, max(abs(y - start - slope * x) / y for x, y in points)


def measure(name: str, kind: str, n_layers: int, width: int, tokens: int, accumulate: int, system: str) -> Planned:
    """Plans one model in this process."""
    import torch

    import lightning_ipu

    module = _module(kind, n_layers, width, tokens)
    ids = torch.zeros(MICRO_BATCH[kind], tokens, dtype=torch.long)
    times = [(time.process_time(), time.perf_counter())]
    reports = []
    for search in (False, True):
        given = {"system": system, "precision": "16-true", "accumulate_grad_batches": accumulate}
        reports.append(lightning_ipu.plan(module, [ids], search=search, **given))
        times.append((time.process_time(), time.perf_counter()))
    (cpu, wall), (cpu_planned, _), (cpu_searched, wall_searched) = times
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    n_ops = sum(m.n_ops for m in reports[0].cost.modules)
    return Planned(name, n_layers, n_ops, cpu_planned - cpu, cpu_searched - cpu_planned, wall_searched - wall, peak, reports[1].fits)


def _module(kind: str, n_layers: int, width: int, tokens: int) -> Any:
    """A LightningModule around the model of transformers, without memory for weights."""
    import lightning as L
    import torch
    import transformers

    class Model(L.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            heads = max(1, width // 64)
            if kind == "bert":
                config: Any = transformers.BertConfig(
                    hidden_size=width, num_hidden_layers=n_layers, num_attention_heads=heads, intermediate_size=4 * width
                )
                self.model = transformers.BertForMaskedLM(config)
            else:
                config = transformers.GPT2Config(n_embd=width, n_layer=n_layers, n_head=heads, n_positions=tokens)
                self.model = transformers.GPT2LMHeadModel(config)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.model(input_ids=batch[0], labels=batch[0]).loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-4)

    with torch.device("meta"):
        return Model()


def in_process(name: str, system: str, **sizes: Any) -> Planned:
    """Plans one model in a process of its own."""
    command = [sys.executable, __file__, "--child", json.dumps({"name": name, "system": system, **sizes})]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return Planned(**json.loads(done.stdout.decode().splitlines()[-1]))


def main(argv: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=lambda text: [int(n) for n in text.split(",")], default=[6, 12, 24, 48], help="comma-separated")
    parser.add_argument("--width", type=int, default=1024, help="of the models that differ in layers (default: 1024)")
    parser.add_argument("--tokens", type=int, default=128, help="of the same (default: 128)")
    parser.add_argument("--whole", default=",".join(WHOLE), help=f"of {', '.join(WHOLE)}, comma-separated; may be empty")
    parser.add_argument("--system", default="bow-pod16", help="what to plan for")
    parser.add_argument("--json", metavar="FILE", help="writes the results")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.child:
        print(json.dumps(asdict(measure(**json.loads(given.child)))))
        return 0
    from machine import describe

    machine = describe(1)
    print(machine.text())
    print(f"{'model':<11} {'layers':>6} {'ops':>7} {'plan s':>7} {'search s':>9} {'wall s':>7} {'peak MiB':>9}  fits")
    rows: List[Planned] = []

    def add(row: Planned) -> None:
        rows.append(row)
        times = f"{row.plan_seconds:>7.2f} {row.search_seconds:>9.2f} {row.wall_seconds:>7.2f}"
        fits = "yes" if row.fits else "no"
        print(f"{row.model:<11} {row.n_layers:>6} {row.n_ops:>7,} {times} {row.peak_bytes / 2**20:>9,.0f}  {fits}", flush=True)

    for n in given.layers:
        sizes = {"kind": "bert", "n_layers": n, "width": given.width, "tokens": given.tokens, "accumulate": 64}
        add(in_process("bert", given.system, **sizes))
    for what, key in (("plan", "plan_seconds"), ("search", "search_seconds")):
        start, slope, off = line_through([(row.n_layers, getattr(row, key)) for row in rows])
        print(f"{what}: {start:.2f} s + {1e3 * slope:.0f} ms a layer; no model is more than {100 * off:.0f} % off that line", flush=True)
    for name in filter(None, given.whole.split(",")):
        if name not in WHOLE:
            parser.error(f"--whole names {name!r}; known are {', '.join(WHOLE)}")
        add(in_process(name, given.system, **WHOLE[name]))
    if given.json:
        with open(given.json, "w") as file:
            json.dump({"schema": 1, "rows": [asdict(row) for row in rows], "machine": asdict(machine)}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
