"""Writes on every node which module it comes from, in the backward pass too.

Module hooks keep the path of the module that runs. The backward pass runs later, outside the modules, so every function of the
autograd tape is claimed by the module in which it was made, and a hook on it sets the path when it runs.
"""

from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Dict, Hashable, Iterator, List, Optional, Set

import torch
from torch import nn

from softipu.capture._torch_private import graph_being_traced
from softipu.graph.origin import KEY, Origin


class ModuleTrail:
    """One capture: which origin the nodes get that are traced from now on.

    Args:
        module: the captured module; paths are counted from it.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._graph = graph_being_traced()
        self._here = Origin()
        self._n_runs = 0
        self._stack: List[Origin] = []
        self._block: Optional[Hashable] = None
        self._claimed: Set[Any] = set()  # the functions themselves: an id may be used again when its owner is gone
        self._mark()

    @property
    def path(self) -> str:
        """Of the module that runs now."""
        return self._here.module

    @contextmanager
    def forward(self, outputs: List[torch.Tensor]) -> Iterator[None]:
        """Follows the modules; the caller puts into ``outputs`` what the forward returned."""
        with self._following():
            yield
        self._mark()
        self.claim(outputs)

    @contextmanager
    def backward(self) -> Iterator[None]:
        """Nodes get the origin of the tape's functions, and the root's where none runs."""
        self._here = Origin("", backward=True, run=self._n_runs)
        with self._following():
            yield
        self._mark()

    @contextmanager
    def _following(self) -> Iterator[None]:
        handles = []
        for path, submodule in self._module.named_modules():
            handles.append(submodule.register_forward_pre_hook(self._entering(path), with_kwargs=True))
            handles.append(submodule.register_forward_hook(self._leaving, with_kwargs=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _mark(self) -> None:
        """Gives the current origin to the nodes that have none yet."""
        for node in reversed(self._graph.nodes) if self._graph is not None else ():
            if KEY in node.meta:
                break
            node.meta[KEY] = self._here

    def _entering(self, path: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Dict[str, Any]) -> None:
            self._mark()
            self.claim([args, kwargs])
            self._stack.append(self._here)
            self._here = self._next(path)

        return hook

    def _leaving(self, module: nn.Module, args: Any, kwargs: Dict[str, Any], result: Any) -> None:
        self._mark()
        self.claim(result)
        before = self._stack.pop()
        self._here = before if before.backward else self._next(before.module)

    def _next(self, path: str) -> Origin:
        """The origin of what runs from now on in the module at ``path``."""
        if self._here.backward:  # a backward of the user's that runs a module's forward again
            return replace(self._here, module=path)
        self._n_runs += 1
        return Origin(path, run=self._n_runs, block=self._block)

    def enter_block(self, block: Optional[Hashable], made: List[Any]) -> None:
        """Nodes from here on belong to ``block``; ``made``, which is emptied, are tensors whose tape belongs to what ran before."""
        self._mark()
        self.claim(made)
        made.clear()
        self._block = block
        self._here = self._next(self._here.module)

    def claim(self, values: Any) -> None:
        """Says that the tape behind ``values``, as far as nobody has claimed it, was made by the module that runs now."""
        origin = replace(self._here, backward=True)
        todo = [t.grad_fn for t in _tensors(values) if t.grad_fn is not None]
        while todo:
            function = todo.pop()
            if function in self._claimed:
                continue
            self._claimed.add(function)
            function.register_prehook(self._entering_backward(origin))
            todo.extend(parent for parent, _ in function.next_functions if parent is not None)

    def _entering_backward(self, origin: Origin) -> Any:
        def hook(gradients: Any) -> None:
            self._mark()
            self._here = origin

        return hook


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
