"""Options.Training.setAutomaticLossScaling: the loss scale follows the size of the half gradients.

After each call the gradients of its last update are looked at: are too many near the largest half, the scale is halved,
otherwise it is doubled. PopART does so after every update; with one device iteration that is the same.
"""

from typing import Sequence

import torch

from softipu.runtime import DeviceMemory

# PopART's defaults: the share of elements above an eighth of the largest half that is still allowed.
_LARGE = torch.finfo(torch.float16).max * 0.125
_ALLOWED_FRACTION = 1e-7
_FACTOR = 2.0
_SMALLEST, _LARGEST = 1.0, 2.0**15


UPDATE_FACTOR = "lossScaleUpdateFactor"
"""Name of ``factor`` among an optimizer's ipu_state."""
FINAL_SCALE = "finalLossScale"
"""Name of the scale of a call among a model's tensors, for Options.anchorTensor."""


class AutomaticLossScaling:
    """Observes the updates of a program.

    Args:
        scale: to begin with.

    Attributes:
        scale: for the next call.
    """

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self._first = scale
        self._n_large = self._n_seen = 0

    @property
    def factor(self) -> float:
        """``scale`` as a multiple of the one that the optimizer gives."""
        return self.scale / self._first

    @factor.setter
    def factor(self, factor: float) -> None:
        self.scale = self._first * factor

    def begins(self) -> None:
        self._n_large = self._n_seen = 0

    def micro_batch(self, iteration: int, accumulation: int, replica: int, anchored: Sequence[torch.Tensor]) -> None:
        pass

    def before_update(self, iteration: int, gradients: Sequence[torch.Tensor]) -> None:
        halves = [g for g in gradients if g.dtype == torch.float16]
        self._n_large = sum(int((~(g.abs() <= _LARGE)).sum()) for g in halves)  # NaN is large
        self._n_seen = sum(g.numel() for g in halves)

    def after_update(self, iteration: int, memory: DeviceMemory) -> None:
        pass

    def adjust(self) -> float:
        """The scale for the next call. Without half gradients it stays."""
        if self._n_seen:
            too_large = self._n_large > _ALLOWED_FRACTION * self._n_seen
            self.scale = min(max(self.scale / _FACTOR if too_large else self.scale * _FACTOR, _SMALLEST), _LARGEST)
        return self.scale
