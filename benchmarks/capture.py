"""Capture time against depth: one training step of the GPT of workloads.py with 2 to 32 layers, and of BERT-Base.

    python benchmarks/capture.py
    python benchmarks/capture.py --layers 4,8 --repeats 5 --json capture.json

Every figure is the median over repeats in this process, the first one (which imports what a capture needs) left out. Seconds per layer
that stay the same with depth say that the time is linear in it; the last column is what the additional layers took each.
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from typing import List, Optional

import torch
from machine import describe
from torch import nn
from workloads import BERT, GPT, WORKLOADS

from softipu.capture import capture, mark_loss


@dataclass(frozen=True)
class Captured:
    """One model.

    Attributes:
        n_nodes: of the graph, forward and backward, before any pass.
        seconds: median, by the clock on the wall.
        cpu_seconds: median of the processor's time, an estimate on a machine that does other things.
    """

    model: str
    n_layers: int
    n_nodes: int
    seconds: float
    cpu_seconds: float


def measure(name: str, n_layers: int, module: nn.Module, sample: List[torch.Tensor], repeats: int) -> Captured:
    """Captures ``module`` ``repeats`` times after one that does not count."""

    def forward(tensors: List[torch.Tensor]) -> List[torch.Tensor]:
        loss = module(*tensors)
        mark_loss(loss, explicit=True)
        return [loss]

    times, cpu_times = [], []
    for _ in range(repeats + 1):
        start, cpu_start = time.perf_counter(), time.process_time()
        step = capture(module, forward, sample, training=True)
        times.append(time.perf_counter() - start)
        cpu_times.append(time.process_time() - cpu_start)
    n_nodes = len(step.graph_module.graph.nodes)
    return Captured(name, n_layers, n_nodes, statistics.median(times[1:]), statistics.median(cpu_times[1:]))


def main(argv: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=lambda text: [int(n) for n in text.split(",")], default=[2, 4, 8, 16, 32], help="comma-separated")
    parser.add_argument("--repeats", type=int, default=3, help="per model (default: 3)")
    parser.add_argument("--json", metavar="FILE", help="writes the results")
    given = parser.parse_args(argv)
    machine = describe(None)
    print(machine.text())
    print(f"{'model':<10} {'layers':>6} {'nodes':>7} {'seconds':>8} {'cpu s':>8} {'cpu ms/layer':>13} {'cpu ms/more':>12}")
    rows: List[Captured] = []

    def add(row: Captured) -> None:
        same = [r for r in rows if r.model == row.model]
        more = 1e3 * (row.cpu_seconds - same[-1].cpu_seconds) / (row.n_layers - same[-1].n_layers) if same else float("nan")
        rows.append(row)
        per_layer = 1e3 * row.cpu_seconds / row.n_layers
        times = f"{row.seconds:>8.2f} {row.cpu_seconds:>8.2f} {per_layer:>13.1f} {more:>12.1f}"
        print(f"{row.model:<10} {row.n_layers:>6} {row.n_nodes:>7,} {times}", flush=True)

    for n_layers in given.layers:
        add(measure("gpt", n_layers, GPT(n_layers=n_layers).train(), list(WORKLOADS["gpt"].samples(8)), given.repeats))
    bert = BERT().train()
    add(measure("bert", bert.bert.config.num_hidden_layers, bert, list(WORKLOADS["bert"].samples(2)), given.repeats))
    if given.json:
        with open(given.json, "w") as file:
            json.dump({"schema": 1, "rows": [asdict(row) for row in rows], "machine": asdict(machine)}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
