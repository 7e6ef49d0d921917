"""Running independent convolutions together: MultiConv. It changes placement and speed on hardware, no value."""

from typing import Any, List, Optional, Sequence, Union

import torch
from torch.overrides import TorchFunctionMode

from softipu.errors import Error
from softipu.poptorch.blocks import scope
from softipu.poptorch.enums import MultiConvPlanType


class _Convolutions(TorchFunctionMode):
    """Counts the convolutions that are called while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.n_seen = 0

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        self.n_seen += getattr(func, "__name__", "").startswith("conv")
        return func(*args, **(kwargs or {}))


_open: List["MultiConv"] = []


class MultiConv:
    """A ``with`` scope whose convolutions, independent of each other, run together on the IPU. Setters return the object."""

    def __init__(self) -> None:
        self._available_memory_proportions: Optional[Sequence[float]] = None
        self._partials_types: Optional[Sequence[torch.dtype]] = None
        self._enable_conv_ditherings: Optional[Sequence[bool]] = None
        self._plan_type: Optional[MultiConvPlanType] = None
        self._per_conv_reserved_tiles: Optional[int] = None
        self._cycle_back_off: Optional[float] = None
        self._seen: Optional[_Convolutions] = None

    def availableMemoryProportions(self, value: Union[float, Sequence[float]]) -> "MultiConv":
        """Share of memory for each convolution: one for all, or a list. AssertionError: anything but floats."""
        values = _as_list(value)
        if values is not None and not (values and all(isinstance(item, float) for item in values)):
            raise AssertionError(f"Invalid available memory proportion! Expecting a float or a list of floats, given {value!r}")
        self._available_memory_proportions = values
        return self

    def partialsTypes(self, value: Union[torch.dtype, Sequence[torch.dtype]]) -> "MultiConv":
        """Accumulation type of each convolution: one for all, or a list. ValueError: anything but torch.float and torch.half."""
        values = _as_list(value)
        if values is None or any(item not in (torch.float32, torch.float16) for item in values):
            raise ValueError(f"Invalid partials types. Expecting torch.float or torch.half, given {value!r}")
        self._partials_types = values
        return self

    def enableConvDithering(self, value: Union[bool, Sequence[bool]]) -> "MultiConv":
        """Start tile layouts at different tiles: one for all, or a list. ValueError: anything but bools."""
        values = _as_list(value)
        if values is not None and not all(isinstance(item, bool) for item in values):
            raise ValueError(f"value must be bool or list of bools, given {value!r}")
        self._enable_conv_ditherings = values
        return self

    def planType(self, value: Optional[MultiConvPlanType]) -> "MultiConv":
        """In parallel or one after another. AssertionError: no MultiConvPlanType."""
        assert value is None or isinstance(value, MultiConvPlanType), (
            f"Invalid plan type! Expecting a poptorch.MultiConvPlanType, given {value!r}"
        )
        self._plan_type = value
        return self

    def perConvReservedTiles(self, value: int) -> "MultiConv":
        """Tiles kept for each convolution. AssertionError: no int."""
        assert isinstance(value, int), f"perConvReservedTiles needs an int, given {value!r}"
        self._per_conv_reserved_tiles = value
        return self

    def cycleBackOff(self, value: float) -> "MultiConv":
        """Share of cycles that may be given up for memory. AssertionError: no float."""
        assert isinstance(value, float), f"cycleBackOff needs a float, given {value!r}"
        self._cycle_back_off = value
        return self

    def __enter__(self) -> None:
        """Error: inside another MultiConv (while a model is captured)."""
        if scope.recorder() is None:
            return
        if _open:
            raise Error("Nested poptorch.MultiConv is not supported. End the outer one before the inner one begins.")
        _open.append(self)
        self._seen = _Convolutions()
        self._seen.__enter__()

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        """Error: no convolution ran inside (while a model is captured)."""
        seen, self._seen = self._seen, None
        if seen is None:
            return
        _open.remove(self)
        seen.__exit__(kind, value, traceback)
        if kind is None and seen.n_seen == 0:
            raise Error("Unexpected end_multi_conv: no convolution ran inside poptorch.MultiConv. Put one inside, or leave the scope out.")


def _as_list(value: Any) -> Optional[List[Any]]:
    if value is None:
        return None
    return list(value) if isinstance(value, (list, tuple)) else [value]
