"""Rules that hold for the calls a module makes while it is captured: losses are marked, what leaves the device is refused."""

from typing import Any, Callable, Dict, FrozenSet, Optional, Tuple

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from softipu.capture.context import CaptureContext, MarkedLoss
from softipu.capture.dtype_rules import on_ipu_types
from softipu.capture.listed_ops import UnlistedOpWatch
from softipu.capture.static_forms import SUBSTITUTES
from softipu.capture.user_code import calling_line, refusal

# Functional forms of the losses that PopTorch marks by itself.
LOSSES: FrozenSet[Callable[..., Any]] = frozenset(
    getattr(F, name)
    for name in (
        "l1_loss", "mse_loss", "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div",
        "poisson_nll_loss", "hinge_embedding_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "cosine_embedding_loss",
        "margin_ranking_loss", "triplet_margin_loss", "multilabel_soft_margin_loss", "multilabel_margin_loss", "multi_margin_loss",
        "ctc_loss", "gaussian_nll_loss", "triplet_margin_with_distance_loss",
    )
)  # fmt: skip

_LEAVES_DEVICE: Dict[Any, str] = {
    torch.Tensor.cpu: ".cpu()",
    torch.Tensor.cuda: ".cuda()",
    torch.Tensor.numpy: ".numpy()",
    torch.Tensor.tolist: ".tolist()",
    torch.Tensor.pin_memory: ".pin_memory()",
    torch.Tensor.share_memory_: ".share_memory_()",
}


class StepRules(TorchFunctionMode):
    """Watches the calls of a module's forward during capture."""

    def __init__(self, context: CaptureContext) -> None:
        super().__init__()
        self._context = context
        self._unlisted = UnlistedOpWatch()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        kwargs = kwargs or {}
        known = self._context.known
        is_known, answer = known.answer(func, args, kwargs)
        if is_known:
            return answer
        if func is torch.Tensor.__getitem__:
            args = (args[0], known.with_known_masks(args[1]))
        if func in _LEAVES_DEVICE:
            raise self._leaves_device(_LEAVES_DEVICE[func])
        if func is torch.Tensor.to:
            self._check_move(args, kwargs)
        if func is torch.Tensor.backward:
            raise refusal(
                "The step calls backward(), but the device runs the backward pass and the update by itself.",
                "return the loss from the step (or mark it by poptorch.identity_loss).",
                calling_line(),
            )
        args, kwargs = on_ipu_types(func, args, kwargs)
        result = SUBSTITUTES.get(func, func)(*args, **kwargs)
        known.follow(func, args, kwargs, result)
        self._unlisted.look()
        self._context.recent.append(result)
        if func in LOSSES and isinstance(result, torch.Tensor):
            self._context.losses.append(MarkedLoss(result, explicit=False))
        return result

    def _check_move(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        target = kwargs.get("device", args[1] if len(args) > 1 else None)
        if isinstance(target, (str, torch.device)) and torch.device(target).type not in ("cpu", "meta", "ipu", "xla"):
            raise self._leaves_device(f".to({str(target)!r})")

    @staticmethod
    def _leaves_device(call: str) -> Exception:
        return refusal(
            f"The step moves a tensor off the IPU by {call}, but nothing leaves the device while a step runs.",
            "leave the tensor where it is, or return it from the step and move it on the host.",
            calling_line(),
        )
