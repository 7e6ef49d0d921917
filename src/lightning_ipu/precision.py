"""IPUPrecision: what `Trainer(precision=...)` means on an IPU.

32-true   weights, inputs and compute in float32.
16-true   weights and inputs in half.
16-mixed  weights in float32; floating inputs in half, and a step gets half of every weight that it uses, made on the device: so the compute
          is half also where no input is floating, as behind an embedding, and the optimizer adds to float32.
"""

import contextlib
from typing import Any, Iterator

import torch
from torch import nn

from lightning_ipu.structures.structure import mapped

ALLOWED = ("32-true", "16-mixed", "16-true")
# Lightning's short and older spellings.
_SPELLINGS = {"32": "32-true", 32: "32-true", "16": "16-mixed", 16: "16-mixed", "bf16": "bf16-mixed", "64": "64-true", 64: "64-true"}


class PrecisionBody:
    """Precision of a step on an IPU: ``"32-true"``, ``"16-mixed"`` or ``"16-true"``.

    Raises:
        ValueError: another precision, which is named.
    """

    def __init__(self, precision: Any = "32-true") -> None:
        super().__init__()
        name = _SPELLINGS.get(precision, precision)
        if name not in ALLOWED:
            raise ValueError(
                f"precision={name!r} is not available with accelerator='ipu': an IPU computes in float32 and in half. "
                f"Allowed: {', '.join(repr(p) for p in ALLOWED)}."
            )
        self.precision = name

    @property
    def is_half(self) -> bool:
        """Whether floating inputs are half."""
        return self.precision != "32-true"

    def convert_module(self, module: nn.Module) -> nn.Module:
        """Half weights for 16-true."""
        return module.half() if self.precision == "16-true" else module

    def convert_input(self, data: Any) -> Any:
        """A batch with float32 tensors in half; whole numbers and truth values stay what they are."""
        if not self.is_half:
            return data
        return mapped(
            lambda leaf: leaf.half() if isinstance(leaf, torch.Tensor) and leaf.dtype in (torch.float32, torch.float64) else leaf, data
        )

    def weight_in_step(self, weight: torch.Tensor, *, trains: bool) -> torch.Tensor:
        """What a step gets for a weight: itself, or for 16-mixed half of it.

        In the parts of a training step that have no gradients it is itself, since these may change weights in place.
        """
        is_cast = self.precision == "16-mixed" and weight.dtype == torch.float32 and (torch.is_grad_enabled() or not trains)
        return weight.half() if is_cast else weight

    def convert_output(self, data: Any) -> Any:
        """As it is."""
        return data

    @contextlib.contextmanager
    def tensor_init_context(self) -> Iterator[None]:
        """Half by default for 16-true."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.half if self.precision == "16-true" else before)
        try:
            yield
        finally:
            torch.set_default_dtype(before)

    @contextlib.contextmanager
    def forward_context(self) -> Iterator[None]:
        """Around a step while it is captured: nothing, the dtypes of weights and inputs decide."""
        yield
