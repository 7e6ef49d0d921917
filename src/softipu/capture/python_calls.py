"""Writes nodes that call Python into the step that is being captured."""

from typing import Sequence, Tuple, Union

import torch
from torch.fx import Node

from softipu.capture._torch_private import add_call, graph_being_traced, not_traced
from softipu.graph.python_calls import PythonCall


def call_python(target: PythonCall, args: Sequence[Union[torch.Tensor, Node]], results: Sequence[torch.Tensor]) -> Tuple[torch.Tensor, ...]:
    """What ``target(*args)`` returns, as tensors of the running capture.

    Args:
        target: runs when the step runs. It must return a tuple of new tensors.
        args: tensors of the capture, or its nodes.
        results: for the shapes and dtypes of what it returns.
    """
    assert graph_being_traced() is not None, "There is no capture to add a call to."
    with not_traced():
        fakes = tuple(torch.empty_like(t, memory_format=torch.contiguous_format) for t in results)
    return tuple(add_call(target, tuple(args), fakes))
