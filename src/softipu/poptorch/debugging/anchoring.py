"""Options.anchorTensor: inner values that calls keep for getAnchoredTensor."""

from dataclasses import dataclass, replace
from typing import Dict, List, Optional, Sequence, Tuple

import torch
from torch.fx import Node

from softipu.graph import Role, Step, Value
from softipu.poptorch.debugging.tensor_names import Source, TensorNames
from softipu.poptorch.enums import OutputMode
from softipu.poptorch.log import logger
from softipu.poptorch.options import Options
from softipu.runtime import BatchShape, OutputRule, Returned
from softipu.runtime.anchors import AnchorRecorder, UpdateValue

aten = torch.ops.aten
_RULES = {
    OutputMode.Final: ("FINAL", Returned.FINAL),
    OutputMode.EveryN: ("EVERYN", Returned.EVERY_N),
    OutputMode.All: ("ALL", Returned.ALL),
    OutputMode.Sum: ("Sum", Returned.SUM),
}


@dataclass(frozen=True)
class Anchor:
    """One entry of the options.

    Attributes:
        name: what the program calls it.
        tensor: its name in the model.
        rule: which of its values a call keeps.
    """

    name: str
    tensor: str
    rule: OutputRule


def read_anchors(options: Options) -> List[Anchor]:
    """The anchors that options ask for; those without an output mode follow the model's."""
    found = []
    for name, (tensor, follows_model, mode, period) in options.anchored_tensors.items():
        wanted = OutputMode(options.output_mode if follows_model else mode)
        every = options.output_return_period if follows_model else period
        word, returned = _RULES[wanted]
        every = every if returned is Returned.EVERY_N else 1
        logger.debug("Anchoring tensor: %s %s/%d", tensor, word, every)
        found.append(Anchor(name, tensor, OutputRule(returned, every)))
    return found


def anchor_in_step(step: Step, anchors: Sequence[Anchor], names: Dict[str, Node]) -> Step:
    """``step`` with one more output for each anchor that is a value of a micro-batch, in their order."""
    graph = step.graph_module.graph
    (output,) = [n for n in graph.nodes if n.op == "output"]
    last_input = [n for n in graph.nodes if n.op == "placeholder"][-1:]
    added: List[Node] = []
    values: List[Value] = []
    for anchor in anchors:
        node = names.get(anchor.tensor)
        if node is None:
            continue
        # A copy made where the value is: a later op may write into it.
        with graph.inserting_after(last_input[0] if node.op == "placeholder" else node):
            copy = graph.call_function(aten.clone.default, (node,))
        copy.meta.update({key: value for key, value in node.meta.items() if key != "val"}, val=node.meta["val"].clone())
        added.append(copy)
        values.append(Value(Role.ANCHOR, anchor.tensor, tuple(node.meta["val"].shape), node.meta["val"].dtype))
    if added:
        output.args = ([*output.args[0], *added],)
        graph.lint()
        step.graph_module.recompile()
    return replace(step, outputs=(*step.outputs, *values))


class Anchored:
    """The anchors of a running program and their last values.

    Args:
        anchors: what options ask for.
        names: of the compiled model.
        shape: micro-batches per call.
        gradients: names of the step's gradients in their order.

    Raises:
        Error: an anchor that is no tensor of the model.
    """

    def __init__(self, anchors: Sequence[Anchor], names: TensorNames, shape: BatchShape, gradients: Sequence[str]) -> None:
        found: List[Tuple[Anchor, Source]] = [(anchor, names.find(anchor.tensor)) for anchor in anchors]
        of_steps = [anchor for anchor, source in found if not isinstance(source, UpdateValue)]
        of_updates = [(anchor, source) for anchor, source in found if isinstance(source, UpdateValue)]
        self._order = [anchor.name for anchor in of_steps] + [anchor.name for anchor, _ in of_updates]
        self.recorder = AnchorRecorder(
            shape, [a.rule for a in of_steps], [source for _, source in of_updates], [a.rule for a, _ in of_updates], gradients
        )

    def values(self) -> Dict[str, Optional[torch.Tensor]]:
        """Values of the last call by the program's names; None where the output mode kept none."""
        return dict(zip(self._order, self.recorder.results()))
