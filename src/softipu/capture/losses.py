"""Which of the marked losses the backward pass starts from."""

from typing import Any, Dict, List

import torch

from softipu.capture.context import MarkedLoss
from softipu.errors import Error


def final_loss(marked: List[MarkedLoss]) -> torch.Tensor:
    """The last marked loss that all others feed.

    A torch loss that feeds no other value (one that is only logged, say) does not count when identity_loss marked the last one.

    Raises:
        Error: no loss was marked, or several that do not feed one another.
    """
    if not marked:
        raise Error(
            "Couldn't find a loss in graph. Compute one inside forward by a torch.nn loss (nn.CrossEntropyLoss, F.mse_loss, ...), "
            "or mark your own by poptorch.identity_loss(loss, reduction='sum'|'mean'|'none')."
        )
    last = marked[-1]
    feeding = _history(last.value)
    strangers = [m for m in marked[:-1] if id(m.value.grad_fn) not in feeding and m.value is not last.value and m.value.grad_fn is not None]
    if last.explicit:
        strangers = [m for m in strangers if m.explicit]
    if strangers:
        raise Error(
            "Multiple independent losses found in graph. Graph must have one final loss. Wrap final graph loss in poptorch.identity_loss. "
            f"{len(strangers) + 1} losses do not feed one another: add them up and mark the sum, "
            "loss = poptorch.identity_loss(loss_a + loss_b, reduction='none')."
        )
    return last.value


def _history(value: torch.Tensor) -> Dict[int, Any]:
    """Autograd functions that ``value`` comes from, by id; held, since PyTorch makes the Python objects anew when none is."""
    seen: Dict[int, Any] = {}
    todo = [value.grad_fn]
    while todo:
        function = todo.pop()
        if function is None or id(function) in seen:
            continue
        seen[id(function)] = function
        todo.extend(parent for parent, _ in function.next_functions)
    return seen
