"""Random ops as functions of (seed, own number): the same draw in any engine, in any order, on any stage."""

import re
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Tuple

import torch
from torch.fx import GraphModule, Node

from softipu.graph import Role, Step, Value
from softipu.graph.effects import is_random, overload_of, written_arguments
from softipu.graph.python_calls import python_call_of
from softipu.graph.seeds import mix

aten = torch.ops.aten
_LIBRARY = torch.library.Library("softipu", "DEF")
_defined: Dict[Any, Any] = {}


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


def seed_random_ops(step: Step, *, always: bool = False) -> Step:
    """``step`` with every random op taking an int64 seed and its own number, and a SEED input if there is any (or always).

    An in-place op (bernoulli_) becomes a functional one and, where its tensor is still needed, a copy into it.
    """
    n_random = _seed_graph(step.graph_module)
    if not n_random:
        if not always:
            return step
        _add_seed_input(step.graph_module)
        step.graph_module.recompile()
        n_random = 1
    inputs = step.inputs + (Value(Role.SEED, "", (), torch.int64),)
    return Step(step.graph_module, inputs, step.outputs, step.mutated, step.training, n_random)


def _seed_graph(graph_module: GraphModule) -> int:
    """Adds a seed after a graph's inputs if it draws random numbers, in inner graphs too; returns how many nodes do."""
    random_nodes = [node for node in graph_module.graph.nodes if is_random(node) or _seed_bodies(node)]
    if not random_nodes:
        return 0
    seed = _add_seed_input(graph_module)
    for number, node in enumerate(random_nodes):
        if python_call_of(node) is not None:
            node.args = (seed, number, *node.args)
        else:
            _replace(graph_module, node, seed, number)
    graph_module.graph.lint()
    graph_module.recompile()
    return len(random_nodes)


def _seed_bodies(node: Node) -> bool:
    """Gives the bodies of a loop or choice seeds of their own if any draws random numbers; returns whether."""
    call = python_call_of(node)
    if call is None or not call.bodies:
        return False
    drawing = [_seed_graph(body) > 0 for body in dict.fromkeys(call.bodies)]
    if not any(drawing):
        return False
    for body, draws in zip(dict.fromkeys(call.bodies), drawing):
        if not draws:
            _add_seed_input(body)
            body.recompile()
    node.target = call.with_bodies(call.bodies, is_seeded=True)
    return True


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
    written = written_arguments(node)
    args, kwargs = _all_arguments(node)
    in_place = _is_in_place(op)
    with graph.inserting_before(node):
        if written and not in_place:  # writes to something besides its result (rrelu_with_noise): called as it is
            drawn = graph.call_function(call_seeded, (op, seed, number, *args), kwargs)
        else:
            drawn = graph.call_function(seeded(op), (*args, seed, number), kwargs)
    drawn.meta.update(node.meta)
    if in_place and not (set(written[0].users) == {node, drawn} and _is_fresh(written[0])):
        with graph.inserting_before(node):
            copied = graph.call_function(aten.copy_.default, (written[0], drawn))
        copied.meta.update(node.meta)
        drawn = copied
    node.replace_all_uses_with(drawn)  # else nobody besides saw the tensor that was filled
    graph.erase_node(node)


def _all_arguments(node: Node) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """A node's arguments with the schema's defaults filled in, without the generator."""
    args, kwargs = [], {}
    for i, argument in enumerate(overload_of(node)._schema.arguments):
        if "Generator" in str(argument.type):
            continue
        if argument.kwarg_only:
            if argument.name in node.kwargs:
                kwargs[argument.name] = node.kwargs[argument.name]
        else:
            args.append(node.args[i] if i < len(node.args) else node.kwargs.get(argument.name, argument.default_value))
    return tuple(args), kwargs


def _is_in_place(op: Any) -> bool:
    return op._schema.name.endswith("_") and op._schema.arguments[0].alias_info is not None


def call_seeded(op: Any, seed: torch.Tensor, number: int, *args: Any, **kwargs: Any) -> Any:
    """Calls ``op`` with its draws from (seed, number)."""
    with drawn_from(mix(int(seed), number)):
        return op(*args, **kwargs)


def _is_fresh(node: Node) -> bool:
    return node.op == "call_function" and node.target in (aten.empty_like.default, aten.empty.memory_format, aten.new_empty.default)


def seeded(op: Any) -> Any:
    """The softipu op that draws what ``op`` draws, from (seed, number); defined when first asked for."""
    if op not in _defined:
        _defined[op] = _define(op)
    return _defined[op]


def _define(op: Any) -> Any:
    schema = op._schema
    in_place = _is_in_place(op)
    ours = f"seeded_{schema.name.split('::')[-1].rstrip('_')}_{schema.overload_name or 'default'}"
    text = _without_aliases(str(schema))
    declared = [a.strip() for a in _split(text[text.index("(") + 1 : text.rindex(") ->")])]
    has_generator = any("Generator" in a for a in declared)
    declared = [a for a in declared if "Generator" not in a]
    star = declared.index("*") if "*" in declared else len(declared)
    positional = [a.split("=")[0] for a in declared[:star]]
    keywords = declared[star + 1 :]
    arguments = positional + ["Tensor seed", "int number"] + (["*"] + keywords if keywords else [])
    _LIBRARY.define(f"{ours}({', '.join(arguments)}) -> {text[text.rindex('->') + 2 :].strip()}")
    generator = torch.Generator()

    def draw(*args: Any, **kwargs: Any) -> Any:
        values = list(args[:star])
        if in_place:
            values[0] = torch.empty_like(values[0])
        seed = mix(int(args[star]), args[star + 1])
        if has_generator:
            return _also_in_half(op, values, {"generator": generator.manual_seed(seed), **kwargs})
        with drawn_from(seed):
            return _also_in_half(op, values, kwargs)

    def shape(*args: Any, **kwargs: Any) -> Any:
        return torch.empty_like(args[0]) if in_place else op(*args[:star], **kwargs)

    _LIBRARY.impl(ours, draw, "CPU")
    _LIBRARY.impl(ours, shape, "Meta")
    return getattr(torch.ops.softipu, ours).default


def _also_in_half(op: Any, values: List[Any], kwargs: Dict[str, Any]) -> Any:
    """What ``op`` draws; in float32 and rounded where PyTorch has no kernel for half on the CPU (bernoulli in 2.0.1)."""
    try:
        return op(*values, **kwargs)
    except RuntimeError as error:
        if "not implemented for 'Half'" not in str(error):
            raise
    wide = [v.float() if isinstance(v, torch.Tensor) and v.dtype == torch.float16 else v for v in values]
    return op(*wide, **kwargs).half()


def _without_aliases(text: str) -> str:
    return re.sub(r"\([a-z](?: -> [*a-z])?!?\)|\([a-z]!? -> [*a-z|]+\)", "", text)


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
