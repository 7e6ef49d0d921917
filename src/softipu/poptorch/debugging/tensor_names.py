"""Names of the tensors inside a compiled model, in PopART's manner, and which value each stands for.

input, input/1                      inputs
fc1.weight                          parameters and buffers
fc1/MatMul:0, fc1/Add:0/1           results of forward ops: module path, name scopes, op, number of the result; repeated names get a number
Gradient___fc1.weight               gradient of a micro-batch, scaled as the loss is
Accum___fc1.weight                  the sum of gradients that enters the update
UpdatedVar___fc1.weight             the parameter after the update
Accl1___fc1.weight, ...             optimizer state after the update
scaledLearningRate0___specific___fc1.weight, ...   numbers of the optimizer
finalLossScale              the factor on the loss, where automatic loss scaling changes it
"""

import difflib
import operator
import re
from dataclasses import dataclass
from typing import Dict, Iterable, List, Tuple, Union

from torch.fx import Node

from softipu.capture.name_scopes import name_scopes_of
from softipu.errors import Error
from softipu.graph import Role, Step
from softipu.graph.aliases import fake_tensors
from softipu.graph.effects import overload_of
from softipu.graph.origin import origin_of
from softipu.graph.python_calls import python_call_of
from softipu.runtime.anchors import UpdateValue

Source = Union[Node, UpdateValue]
_OP_WORDS = {
    "addmm": "MatMul", "mm": "MatMul", "bmm": "MatMul", "baddbmm": "MatMul", "mv": "MatMul", "convolution": "Conv", "_softmax": "Softmax",
    "_log_softmax": "LogSoftmax", "native_layer_norm": "LayerNormalization", "native_group_norm": "GroupNormalization",
    "native_batch_norm": "BatchNormalization", "mean": "ReduceMean", "sum": "ReduceSum", "amax": "ReduceMax", "amin": "ReduceMin",
    "view": "Reshape", "_unsafe_view": "Reshape", "t": "Transpose", "permute": "Transpose", "_to_copy": "Cast", "clone": "Identity",
    "cat": "Concat", "embedding": "Gather", "index_select": "Gather", "max_pool2d_with_indices": "MaxPool", "nll_loss_forward": "Nll",
}  # fmt: skip


@dataclass(frozen=True)
class TensorNames:
    """All names of a compiled model.

    Attributes:
        sources: of the names whose values can be had.
        others: names without a value here: the optimizer's numbers.
    """

    sources: Dict[str, Source]
    others: Tuple[str, ...] = ()

    def listed(self) -> List[str]:
        """Every name."""
        return [*self.sources, *self.others]

    def find(self, name: str) -> Source:
        """What a name stands for. Error: no such name; suggests near ones."""
        if name in self.sources:
            return self.sources[name]
        near = difflib.get_close_matches(name, self.sources, n=3, cutoff=0.3)
        raise Error(
            f"Options.anchorTensor names '{name}', but there is no such tensor in the model. Near names: {', '.join(near) or 'none'}. "
            "PoplarExecutor.getTensorNames() lists all of them."
        )


def names_of_step(step: Step, *, with_modules: bool = True) -> Dict[str, Node]:
    """Names of a captured step's values, before any pass has changed its nodes; without module paths if not wanted."""
    nodes = list(step.graph_module.graph.nodes)
    found: Dict[str, Node] = {}
    inputs = 0
    for value, node in zip(step.inputs, [n for n in nodes if n.op == "placeholder"]):
        if value.role in (Role.PARAMETER, Role.BUFFER):
            found[value.name] = node
        elif value.role is Role.INPUT:
            found["input" if inputs == 0 else f"input/{inputs}"] = node
            inputs += 1
    for node in nodes:
        if node.op == "call_function" and not origin_of(node).backward and len(list(fake_tensors(node))) == 1:
            _add(found, _name_of(node, with_modules), node)
    for value, node in zip(step.outputs, nodes[-1].args[0]):
        if value.role is Role.GRADIENT:
            found[f"Gradient___{value.name}"] = node
    return found


def names_of_update(parameters: Iterable[str], states: Iterable[str]) -> Dict[str, UpdateValue]:
    """Names of a weight update's values."""
    found = {}
    for name in parameters:
        found[f"Accum___{name}"] = UpdateValue("gradient", name)
        found[f"UpdatedVar___{name}"] = UpdateValue("parameter", name)
    found.update({name: UpdateValue("state", name) for name in states})
    return found


def _add(found: Dict[str, Node], name: str, node: Node) -> None:
    n = 0
    unique = name
    while unique in found:
        n += 1
        unique = f"{name}/{n}"
    found[unique] = node


def _name_of(node: Node, with_modules: bool) -> str:
    index = 0
    if node.target is operator.getitem:
        index = int(node.args[1])  # type: ignore[arg-type]
        node = node.args[0]  # type: ignore[assignment]
    modules = origin_of(node).module.split(".") if with_modules and origin_of(node).module else []
    scopes = [(len(scope.module.split(".")) if scope.module else 0, scope.name) for scope in name_scopes_of(node)]
    path: List[str] = []
    for depth in range(len(modules) + 1):  # a scope stands behind the modules in which it was opened
        path += [name for opened_at, name in scopes if min(opened_at, len(modules)) == depth]
        path += modules[depth : depth + 1]
    return f"{'/'.join([*path, _word(node)])}:{index}"


def _word(node: Node) -> str:
    call = python_call_of(node)
    op = overload_of(node)
    name = call.__name__ if call is not None else op._schema.name.split("::")[-1] if op is not None else str(node.target)
    name = name if name in _OP_WORDS else name.rstrip("_")
    return _OP_WORDS.get(name) or "".join(part.capitalize() for part in re.split(r"_+", name) if part)
