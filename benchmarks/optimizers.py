"""Time of one weight update: the software IPU's update graph against torch.optim's step().

    python benchmarks/optimizers.py

For the parameter shapes of an MLP (784-128-10) and of a GPT with four layers of width 128. One thread. The columns are medians
of processor time, which other programs disturb less than wall time, in microseconds: the fused graph under the interpreter
engine, the same with contiguity checks for gradients in any memory order, the elementwise graph (which is meant for a
compiler), and torch.optim with its defaults, foreach=True and fused=True ("-": not in this torch).
"""

import argparse
import statistics
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from softipu.capture.update import build_update, hyper_values, new_state, read_optimizer
from softipu.poptorch import optim
from softipu.runtime.interpreter import compile_graph

Shapes = Dict[str, Tuple[int, ...]]


def mlp() -> Shapes:
    return {"0.weight": (128, 784), "0.bias": (128,), "1.weight": (10, 128), "1.bias": (10,)}


def gpt(d: int = 128, n_layers: int = 4, n_tokens: int = 65, n_positions: int = 64) -> Shapes:
    shapes: Shapes = {"tokens": (n_tokens, d), "positions": (n_positions, d)}
    for i in range(n_layers):
        layer = {"norm1": d, "norm2": d, "qkv": (3 * d, d), "out": (d, d), "up": (4 * d, d), "down": (d, 4 * d)}
        for name, size in layer.items():
            shapes[f"{i}.{name}.weight"] = size if isinstance(size, tuple) else (size,)
            shapes[f"{i}.{name}.bias"] = (size[0] if isinstance(size, tuple) else size,)
    shapes.update({"norm.weight": (d,), "norm.bias": (d,)})
    return shapes


OPTIMIZERS: Dict[str, Tuple[type, Dict[str, Any]]] = {
    "SGD": (torch.optim.SGD, {}),
    "SGD momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "Adam": (torch.optim.Adam, {}),
    "AdamW": (torch.optim.AdamW, {"weight_decay": 0.01}),
    "RMSprop": (torch.optim.RMSprop, {}),
    "LAMB": (optim.LAMB, {}),
}


def median_us(call: Callable[[], Any], gradients: List[torch.Tensor], n_runs: int) -> float:
    """Median processor time of ``call``; every run finds fresh gradients, for a rule may overwrite them."""
    fresh = [g.clone() for g in gradients]
    times = []
    for _ in range(n_runs + n_runs // 10):
        for g, value in zip(gradients, fresh):
            g.copy_(value)
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return statistics.median(times[n_runs // 10 :]) * 1e6


def device_us(shapes: Shapes, make: Callable[..., torch.optim.Optimizer], n_runs: int, **flags: Any) -> float:
    weights = {name: torch.randn(shape) for name, shape in shapes.items()}
    gradients = [torch.randn(shape) * 1e-3 for shape in shapes.values()]
    optimizer = make(list(weights.values()))
    spec = read_optimizer(optimizer, weights)
    update = build_update(spec, weights, **flags)
    numbers: List[Any] = list(hyper_values(optimizer, spec))
    if update.form == "elementwise":
        numbers = [torch.tensor(value, dtype=torch.float64) for value in numbers]
    inputs = [*weights.values(), *gradients, *new_state(update, weights).values(), *numbers]
    run = compile_graph(update.graph_module)
    return median_us(lambda: run(*inputs), gradients, n_runs)


def torch_us(shapes: Shapes, make: Callable[..., torch.optim.Optimizer], n_runs: int, **flags: Any) -> Optional[float]:
    weights = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes.values()]
    gradients = [torch.randn(shape) * 1e-3 for shape in shapes.values()]
    for weight, g in zip(weights, gradients):
        weight.grad = g
    try:
        optimizer = make(weights, **flags)
        optimizer.step()
    except (TypeError, RuntimeError, NotImplementedError):  # this version of torch does not have it
        return None
    return median_us(optimizer.step, gradients, n_runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300, help="timed updates per figure")
    n_runs = parser.parse_args().runs
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, medians of processor time in us over {n_runs} updates; ratio: best of torch / fused graph")
    columns = ("fused", "any order", "elementwise", "torch", "foreach", "fused", "ratio")
    print(f"{'':<18}{'':<14}" + "".join(f"{name:>12}" for name in columns))
    for model, shapes in (("MLP 784-128-10", mlp()), ("GPT 4x128", gpt())):
        for name, (cls, options) in OPTIMIZERS.items():

            def make(
                weights: List[torch.Tensor], cls: type = cls, options: Dict[str, Any] = options, **flags: Any
            ) -> torch.optim.Optimizer:
                return cls(weights, lr=1e-4, **options, **flags)

            own = [
                device_us(shapes, make, n_runs, dense_gradients=True),
                device_us(shapes, make, n_runs),
                device_us(shapes, make, n_runs, form="elementwise"),
            ]
            torchs = [torch_us(shapes, make, n_runs, **flags) for flags in ({}, {"foreach": True}, {"fused": True})]
            ratio = min(value for value in torchs if value is not None) / own[0]
            figures = "".join(f"{'-' if value is None else format(value, '.0f'):>12}" for value in [*own, *torchs])
            print(f"{model:<18}{name:<14}{figures}{ratio:>12.2f}")


if __name__ == "__main__":
    main()
