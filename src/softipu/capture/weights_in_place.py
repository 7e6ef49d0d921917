"""Puts other tensors in the place of a module's parameters and buffers while it runs."""

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Tuple

import torch
from torch import nn


def unique_parameters(module: nn.Module) -> Dict[str, nn.Parameter]:
    """Parameters by their first name; a tied one appears once."""
    return dict(module.named_parameters())


def unique_buffers(module: nn.Module) -> Dict[str, torch.Tensor]:
    """Buffers by their first name; a tied one appears once."""
    return dict(module.named_buffers())


@contextmanager
def replaced(module: nn.Module, tensors: Dict[int, torch.Tensor]) -> Iterator[None]:
    """Runs with every parameter and buffer ``t`` of ``module`` replaced by ``tensors[id(t)]``; all are put back in the end."""
    saved: List[Tuple[Dict[str, Any], str, Any]] = []
    flat: List[Tuple[nn.RNNBase, List[Any]]] = []
    for submodule in module.modules():
        registries: Tuple[Dict[str, Any], ...] = (submodule._parameters, submodule._buffers)
        for registry in registries:
            for name, value in registry.items():
                if value is not None:
                    saved.append((registry, name, value))
                    registry[name] = tensors[id(value)]
        if isinstance(submodule, nn.RNNBase):  # keeps a second list of its weights
            flat.append((submodule, list(submodule._flat_weights)))
            submodule._flat_weights = [getattr(submodule, name, None) for name in submodule._flat_weights_names]
    try:
        yield
    finally:
        for registry, name, value in saved:
            registry[name] = value
        for rnn, weights in flat:
            rnn._flat_weights = weights
