"""Random ops as functions of (seed, own number): the same draw in any engine, in any order, on any stage."""

from contextlib import contextmanager
from typing import Any, Dict, Iterator, Tuple

import torch
from torch.fx import GraphModule, Node

from softipu.graph import Role, Step, Value
from softipu.graph.effects import is_random, overload_of, written_arguments

aten = torch.ops.aten
_LIBRARY = torch.library.Library("softipu", "DEF")
_defined: Dict[Any, Any] = {}
_MULTIPLIER = 0x9E3779B97F4A7C15  # odd, near 2^64 / golden ratio: neighbouring counters give unrelated seeds
_MASK = (1 << 63) - 1


def mix(seed: int, number: int) -> int:
    """A seed for stream ``number`` of ``seed``: splitmix64's finaliser, in 63 bits."""
    z = (seed + (number + 1) * _MULTIPLIER) & ((1 << 64) - 1)
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & ((1 << 64) - 1)
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & ((1 << 64) - 1)
    return (z ^ (z >> 31)) & _MASK


@contextmanager
def drawn_from(seed: int) -> Iterator[None]:
    """Draws come from ``seed``; the host's global generator is as it was afterwards."""
    generator = torch.default_generator
    state = generator.get_state()
    generator.manual_seed(seed)
    try:
        yield
    finally:
        generator.set_state(state)


def seed_random_ops(step: Step) -> Step:
    """``step`` with every random op taking an int64 seed and its own number, and a SEED input if there is any.

    An in-place op (bernoulli_) becomes a functional one and, where its tensor is still needed, a copy into it.
    """
    graph_module = step.graph_module
    random_nodes = [node for node in graph_module.graph.nodes if is_random(node)]
    if not random_nodes:
        return step
    seed = _add_seed_input(graph_module)
    for number, node in enumerate(random_nodes):
        _replace(graph_module, node, seed, number)
    graph_module.graph.lint()
    graph_module.recompile()
    inputs = step.inputs + (Value(Role.SEED, "", (), torch.int64),)
    return Step(graph_module, inputs, step.outputs, step.mutated, step.training, len(random_nodes))


def _add_seed_input(graph_module: GraphModule) -> Node:
    placeholders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    after = placeholders[-1] if placeholders else None
    if after is None:
        with graph_module.graph.inserting_before(next(iter(graph_module.graph.nodes))):
            seed = graph_module.graph.placeholder("seed")
    else:
        with graph_module.graph.inserting_after(after):
            seed = graph_module.graph.placeholder("seed")
    seed.meta["val"] = torch.empty((), dtype=torch.int64, device="meta")
    return seed


def _replace(graph_module: GraphModule, node: Node, seed: Node, number: int) -> None:
    graph = graph_module.graph
    op = overload_of(node)
    kwargs = {k: v for k, v in node.kwargs.items() if k != "generator"}
    written = written_arguments(node)
    with graph.inserting_before(node):
        drawn = graph.call_function(seeded(op), (*node.args, seed, number), kwargs)
    drawn.meta.update(node.meta)
    if not written:
        node.replace_all_uses_with(drawn)
        graph.erase_node(node)
        return
    (target,) = written
    if list(target.users) in ([node, drawn], [drawn, node]) and _is_fresh(target):
        node.replace_all_uses_with(drawn)  # nobody else sees the tensor that was filled
    else:
        with graph.inserting_before(node):
            copied = graph.call_function(aten.copy_.default, (target, drawn))
        copied.meta.update(node.meta)
        node.replace_all_uses_with(copied)
    graph.erase_node(node)


def _is_fresh(node: Node) -> bool:
    return node.op == "call_function" and node.target in (aten.empty_like.default, aten.empty.memory_format, aten.new_empty.default)


def seeded(op: Any) -> Any:
    """The softipu op that draws what ``op`` draws, from (seed, number); defined when first asked for."""
    if op not in _defined:
        _defined[op] = _define(op)
    return _defined[op]


def _define(op: Any) -> Any:
    schema = op._schema
    name = schema.name.split("::")[-1]
    overload = schema.overload_name or "default"
    in_place = name.endswith("_") and any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)
    ours = f"seeded_{name.rstrip('_')}_{overload}"
    text = str(schema)
    inside = text[text.index("(") + 1 : text.rindex(") ->")]
    arguments = [a.strip() for a in _split(inside) if "Generator" not in a]
    star = arguments.index("*") if "*" in arguments else len(arguments)
    arguments[star:star] = ["Tensor seed", "int number"]
    # required arguments may not follow ones with defaults in a schema: give ours to be passed by position after dropping the defaults before them
    arguments[:star] = [a.split("=")[0] for a in arguments[:star]]
    returns = "Tensor" if in_place else text[text.rindex("->") + 2 :].strip()
    plain = [_without_alias(a) for a in arguments]
    if plain and plain[-1] == "*":
        plain.pop()
    _LIBRARY.define(f"{ours}({', '.join(plain)}) -> {_without_alias(returns)}")
    n_positional = star

    def draw(*args: Any, **kwargs: Any) -> Any:
        values, (seed, number) = args[:n_positional], args[n_positional : n_positional + 2]
        with drawn_from(mix(int(seed), number)):
            return op(torch.empty_like(values[0]), *values[1:], **kwargs) if in_place else op(*values, **kwargs)

    def shape(*args: Any, **kwargs: Any) -> Any:
        values = args[:n_positional]
        return torch.empty_like(values[0]) if in_place else op(*values, **kwargs)

    _LIBRARY.impl(ours, draw, "CPU")
    if not any("Tensor" in a for a in inside.split(",")):
        _LIBRARY.impl(ours, draw, "BackendSelect")
    _LIBRARY.impl(ours, shape, "Meta")
    return getattr(torch.ops.softipu, ours).default


def _without_alias(text: str) -> str:
    out, depth = "", 0
    for i, char in enumerate(text):
        if char == "(" and text[:i].endswith("Tensor"):
            depth = 1
        if not depth:
            out += char
        if char == ")" and depth:
            depth = 0
    return out


def _split(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for i, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == "," and not depth:
            yield text[start:i]
            start = i + 1
    if text[start:].strip():
        yield text[start:]


def example_inputs(step: Step) -> Tuple[torch.Tensor, ...]:
    """Fake values of a step's inputs, in order."""
    return tuple(n.meta["val"] for n in step.graph_module.graph.nodes if n.op == "placeholder")
