"""Parts of torch.nn that look at values on the host without need: the same without the look, while a step is captured.

They are no functions that a function mode sees, so they are put in place for the time of a capture. Checked on 2.0.1 and 2.13.
"""

import functools
import inspect
import math
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


def _truncated_normal(
    tensor: torch.Tensor, mean: float, std: float, a: float, b: float, generator: Optional[torch.Generator] = None
) -> torch.Tensor:
    """Fills ``tensor`` with draws of a normal distribution between ``a`` and ``b``: the inverse of its distribution at uniform draws.

    Newer versions of PyTorch draw until all are inside, which has no fixed number of steps.
    """

    def below(value: float) -> float:
        return math.erf((value - mean) / (std * math.sqrt(2.0)))

    with torch.no_grad():
        uniform = torch.empty(tensor.shape, dtype=torch.float32).uniform_(below(a), below(b))
        drawn = mean + std * math.sqrt(2.0) * torch.erfinv(uniform)
        return tensor.copy_(drawn.clamp(a, b))


def _cumulative_average(original: Callable[..., Any]) -> Callable[..., Any]:
    """BatchNorm's forward; with ``momentum=None`` the running statistics are means over all batches, counted on the device."""

    @functools.wraps(original)
    def forward(self: Any, input: torch.Tensor) -> torch.Tensor:
        if self.momentum is not None or not (self.training and self.track_running_stats) or self.num_batches_tracked is None:
            result: torch.Tensor = original(self, input)
            return result
        self._check_input_dim(input)
        self.num_batches_tracked.add_(1)
        mean, var = torch.zeros_like(self.running_mean), torch.zeros_like(self.running_var)
        result = F.batch_norm(input, mean, var, self.weight, self.bias, True, 1.0, self.eps)  # leaves this batch's in them
        with torch.no_grad():
            for running, of_batch in ((self.running_mean, mean), (self.running_var, var)):
                running.add_((of_batch - running) / self.num_batches_tracked)
        return result

    return forward


def _without_causal_check(original: Callable[..., Any], hint: str) -> Callable[..., Any]:
    """A transformer's forward; PyTorch compares the mask with a causal one only to choose a faster kernel."""
    place = list(inspect.signature(original).parameters).index(hint)

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if len(args) > place:
            args = (*args[:place], bool(args[place]), *args[place + 1 :])
        else:
            kwargs[hint] = bool(kwargs.get(hint))
        return original(*args, **kwargs)

    return forward


def _substitutes() -> List[Tuple[Any, str, Any]]:
    found: List[Tuple[Any, str, Any]] = [
        (nn.init, "_no_grad_trunc_normal_", _truncated_normal),
        (_BatchNorm, "forward", _cumulative_average(_BatchNorm.forward)),
    ]
    for layer, hint in ((nn.TransformerEncoder, "is_causal"), (nn.TransformerDecoder, "tgt_is_causal")):
        if hint in inspect.signature(layer.forward).parameters:
            found.append((layer, "forward", _without_causal_check(layer.forward, hint)))
    return found


@contextmanager
def static_layers() -> Iterator[None]:
    """Layers and initialisers of torch.nn look at no values in here."""
    substitutes = _substitutes()
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in substitutes]
    for owner, name, value in substitutes:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
