"""What an engine is: it makes graphs callable."""

from dataclasses import dataclass
from typing import Any, Callable, Optional, Protocol, Sequence

import torch
from torch.fx import GraphModule

Function = Callable[..., Sequence[Any]]
"""Takes a graph's inputs in order and returns its outputs; writes in place what the graph writes in place."""


@dataclass(frozen=True)
class EngineSettings:
    """What engines may be told.

    Attributes:
        cache_dir: folder for compiled programs; None is the user's own cache.
        show_progress: whether to say on the standard error stream what is being compiled.
    """

    cache_dir: Optional[str] = None
    show_progress: bool = False


class CannotCompile(Exception):
    """An engine cannot run a graph on this machine; the message says why, and what to do."""


class Engine(Protocol):
    """Makes graphs callable.

    Attributes:
        name: what it is called in options, messages and results.
    """

    name: str

    def update_form(self, rule: str) -> str:
        """Which form of an optimizer's graph it runs best: ``fused`` or ``elementwise``."""
        ...

    def compile(self, graph_module: GraphModule, examples: Sequence[torch.Tensor], title: str) -> Function:
        """A function that computes what the graph does.

        Args:
            graph_module: ATen ops, in-place ones too; it is not changed.
            examples: one for each input, real or fake; only shapes, strides and dtypes count. A Python float where the graph takes one.
            title: what the graph is, for messages.

        Raises:
            CannotCompile: the engine cannot.
        """
        ...
