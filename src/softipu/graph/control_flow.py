"""Loops and choices as nodes: an inner graph that runs several times, or one of two that runs at all."""

from typing import Any, Sequence, Tuple

import torch
from torch.fx import GraphModule

from softipu.graph.aliases import node_storage
from softipu.graph.effects import written_arguments
from softipu.graph.python_calls import PythonCall
from softipu.graph.seeds import mix


class Loop(PythonCall):
    """``count`` runs of a body; each gets what the one before returned.

    Takes the first inputs of the body, then the tensors that it uses besides; those are the same in every run. All are
    passed by value.

    Args:
        count: number of runs.
        body: graph of (inputs, used tensors) that returns as many values as it has inputs.
        n_inputs: how many of its inputs change from run to run.
    """

    __name__ = "loop"

    def __init__(self, count: int, body: GraphModule, n_inputs: int, *, is_seeded: bool = False) -> None:
        self.count, self.bodies, self.n_inputs, self.is_seeded = count, (body,), n_inputs, is_seeded
        self._written = written_placeholders(body)

    def __call__(self, *args: Any) -> Tuple[torch.Tensor, ...]:
        seed, values = _split_seed(args, self.is_seeded)
        state, used = list(values[: self.n_inputs]), list(values[self.n_inputs :])
        for run in range(self.count):
            given = _by_value([*state, *used], self._written)
            state = list(self.bodies[0](*given, *_seed_of_run(seed, run)))
        return tuple(t.clone() for t in state)

    def with_bodies(self, bodies: Tuple[GraphModule, ...], *, is_seeded: bool) -> "Loop":
        return Loop(self.count, bodies[0], self.n_inputs, is_seeded=is_seeded)


class Choice(PythonCall):
    """One of two bodies, by a condition that is a tensor of one element.

    Takes the condition, then what the first body takes, then what the second takes; all are passed by value.

    Args:
        bodies: what runs when the condition holds, and what runs otherwise; both return the same number of values.
        n_first: how many values the first takes.
    """

    __name__ = "choice"

    def __init__(self, bodies: Tuple[GraphModule, GraphModule], n_first: int, *, is_seeded: bool = False) -> None:
        self.bodies, self.n_first, self.is_seeded = bodies, n_first, is_seeded
        self._written = tuple(written_placeholders(body) for body in bodies)

    def __call__(self, *args: Any) -> Tuple[torch.Tensor, ...]:
        seed, values = _split_seed(args, self.is_seeded)
        index = 0 if bool(values[0]) else 1
        given = values[1 : 1 + self.n_first] if index == 0 else values[1 + self.n_first :]
        results = self.bodies[index](*_by_value(given, self._written[index]), *_seed_of_run(seed, index))
        return tuple(t.clone() for t in results)

    def with_bodies(self, bodies: Tuple[GraphModule, ...], *, is_seeded: bool) -> "Choice":
        return Choice((bodies[0], bodies[1]), self.n_first, is_seeded=is_seeded)


def written_placeholders(body: GraphModule) -> Tuple[int, ...]:
    """Positions of a graph's inputs whose memory its ops write."""
    inputs = {node_storage(n): i for i, n in enumerate(n for n in body.graph.nodes if n.op == "placeholder")}
    targets = [t for node in body.graph.nodes for t in written_arguments(node)]
    return tuple(sorted({inputs[node_storage(t)] for t in targets if node_storage(t) in inputs}))


def _by_value(values: Sequence[torch.Tensor], written: Sequence[int]) -> Sequence[torch.Tensor]:
    return [v.clone() if i in written else v for i, v in enumerate(values)]


def _split_seed(args: Sequence[Any], is_seeded: bool) -> Tuple[Any, Sequence[Any]]:
    if not is_seeded:
        return None, args
    return mix(int(args[0]), args[1]), args[2:]


def _seed_of_run(seed: Any, run: int) -> Sequence[torch.Tensor]:
    return () if seed is None else (torch.tensor(mix(seed, run), dtype=torch.int64),)
