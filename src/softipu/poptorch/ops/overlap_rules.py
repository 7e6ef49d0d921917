"""What PopTorch demands of inputs and outputs that are marked for overlapped transfer, looked at while a step is compiled."""

from contextlib import contextmanager
from typing import Iterator, List, Optional, Sequence, Set, Tuple

import torch
from torch.fx import Node

from softipu.errors import Error
from softipu.graph import Role, Step
from softipu.poptorch.blocks.strategies import PipelinedExecution, ShardedExecution
from softipu.poptorch.enums import OutputMode
from softipu.poptorch.options import Options

_MIN_IO_TILES = 32
_OUTPUT_MODES = (OutputMode.All, OutputMode.Sum)


class OverlapMarks:
    """The marks that one capture meets.

    A mark is an alias of its tensor: so the graph tells the uses of the mark from those of the tensor itself.
    """

    def __init__(self) -> None:
        self._inputs: Tuple[torch.Tensor, ...] = ()
        self._names: Sequence[str] = ()
        self._marked_inputs: Set[int] = set()
        self._marked_outputs: List[Tuple[torch.Tensor, torch.Tensor]] = []

    def begins(self, inputs: Sequence[torch.Tensor], names: Sequence[str]) -> None:
        """A forward begins with these tensors."""
        self._inputs, self._names = tuple(inputs), names
        self._marked_inputs.clear()
        self._marked_outputs.clear()

    def mark_input(self, tensor: torch.Tensor) -> torch.Tensor:
        """An alias of an input. Error: no input."""
        position = next((i for i, known in enumerate(self._inputs) if known is tensor), None)
        if position is None:
            raise Error(
                "poptorch.set_overlap_for_input applied on a node which is not a tensor input to the model. Apply it to the arguments of "
                "the model's own forward, before anything else."
            )
        self._marked_inputs.add(position)
        return torch.ops.aten.alias.default(tensor)

    def mark_output(self, tensor: torch.Tensor) -> torch.Tensor:
        """An alias of a tensor that has to be returned."""
        marked = torch.ops.aten.alias.default(tensor)
        self._marked_outputs.append((tensor, marked))
        return marked

    def check_results(self, results: Sequence[torch.Tensor]) -> None:
        """Error: a marked output that is not returned, or returned twice."""
        for tensor, marked in self._marked_outputs:
            if not any(result is marked for result in results):
                raise Error(
                    "poptorch.set_overlap_for_output applied on a node which is not a tensor output to the model. Return what it returns "
                    "from the model's own forward, as it is."
                )
            if sum(result is marked or result is tensor for result in results) > 1:
                raise Error(
                    "poptorch.set_overlap_for_output cannot be used with a tensor that is returned twice. Please check all returned "
                    "tensors including those nested in tuples/lists."
                )

    def check(self, step: Step, options: Options) -> None:
        """What can be said once the step is captured.

        Raises:
            Error: an input that is also used without its mark, pipelined execution, no I/O tiles, or an output mode other than All and Sum.
        """
        if not self._marked_inputs and not self._marked_outputs:
            return
        for position, node in enumerate(_inputs_of(step)):
            if position in self._marked_inputs and len(node.users) > 1:
                raise Error(
                    "poptorch.set_overlap_for_input must be the only op applied to an input. This is not the case for input "
                    f"{self._names[position]} to the model."
                )
        strategy = options._execution_strategy
        if isinstance(strategy, PipelinedExecution) and not isinstance(strategy, ShardedExecution):
            raise Error(
                "Overlapped IO is not supported with poptorch.PipelinedExecution. If you are using only one IPU, please switch to "
                "poptorch.ShardedExecution."
            )
        n_tiles = options.TensorLocations.n_io_tiles
        if n_tiles < _MIN_IO_TILES:
            raise Error(
                f"No IO tiles allocated. You must allocate at least {_MIN_IO_TILES} IO tiles using "
                "poptorch.Options().TensorLocations.numIOTiles."
            )
        if self._marked_outputs and OutputMode(options.output_mode) not in _OUTPUT_MODES:
            raise Error(
                f"Overlapped outputs need the output mode All or Sum, given {OutputMode(options.output_mode).name}. "
                "Call Options.outputMode(poptorch.OutputMode.All)."
            )


def _inputs_of(step: Step) -> List[Node]:
    nodes = [node for node in step.graph_module.graph.nodes if node.op == "placeholder"]
    return [node for value, node in zip(step.inputs, nodes) if value.role is Role.INPUT]


_running: List[OverlapMarks] = []


@contextmanager
def marking() -> Iterator[OverlapMarks]:
    """Lets set_overlap_for_input and set_overlap_for_output tell new marks while this context lasts."""
    marks = OverlapMarks()
    _running.append(marks)
    try:
        yield marks
    finally:
        _running.pop()


def current_marks() -> Optional[OverlapMarks]:
    """The marks of the capture that runs now, or None."""
    return _running[-1] if _running else None
