"""Options of the arithmetic (``options.Precision``)."""

import torch

from softipu.poptorch.enums import HalfFloatCastingBehavior
from softipu.poptorch.log import logger
from softipu.poptorch.options.option_set import OptionSet
from softipu.poptorch.options.popart import _PopartOptions


class _PrecisionOptions(OptionSet):
    """Set through PopART's options, so read them in ``options._Popart.options``: enableFloatingPointChecks,
    enableStochasticRounding, partialsTypeMatMuls and convolutionOptions."""

    def __init__(self, popart_options: _PopartOptions) -> None:
        self._popart_options = popart_options
        super().__init__(half_float_casting=HalfFloatCastingBehavior.HalfUpcastToFloat, running_statistics_always_float=False)

    def enableFloatingPointExceptions(self, enabled: bool) -> "_PrecisionOptions":
        """Raise at run time on division by zero, overflow and results that are not a number.

        Raises:
            AssertionError: no bool.
        """
        assert isinstance(enabled, bool), f"enableFloatingPointExceptions needs to be set to a bool, given {enabled!r}"
        self._popart_options.set("enableFloatingPointChecks", enabled)
        return self

    def enableStochasticRounding(self, enabled: bool) -> "_PrecisionOptions":
        """Round float16 results up or down at random, so that the mean is the unrounded value."""
        self._popart_options.set("enableStochasticRounding", enabled)
        return self

    def setPartialsType(self, dtype: torch.dtype) -> "_PrecisionOptions":
        """The type that matrix products and convolutions accumulate in: torch.float or torch.half.

        Raises:
            ValueError: any other dtype.
        """
        names = {torch.float32: "float", torch.float16: "half"}
        if dtype not in names:
            raise ValueError(f"parameter to setPartialsType should be either torch.float or torch.half, given {dtype!r}")
        self._popart_options.set("partialsTypeMatMuls", names[dtype])
        self._popart_options._merge("convolutionOptions", partialsType=names[dtype])
        return self

    def halfFloatCasting(self, half_float_casting: HalfFloatCastingBehavior) -> "_PrecisionOptions":
        """Deprecated: ops with mixed float16 and float32 operands follow PyTorch (HalfUpcastToFloat); others have no effect.

        Raises:
            ValueError: no HalfFloatCastingBehavior.
        """
        self.checkIsFrozen()
        if not isinstance(half_float_casting, HalfFloatCastingBehavior):
            raise ValueError(
                f"halfFloatCasting must be set to poptorch.HalfFloatCastingBehavior.HalfUpcastToFloat, given {half_float_casting!r}"
            )
        logger.warning(
            "Options.Precision.halfFloatCasting is deprecated and has no effect: casting always follows "
            "HalfFloatCastingBehavior.HalfUpcastToFloat (given %s).",
            half_float_casting.name,
        )
        return self

    def runningStatisticsAlwaysFloat(self, value: bool) -> "_PrecisionOptions":
        """Deprecated: running statistics have the dtype of the model's buffers (False); True has no effect.

        Raises:
            ValueError: no bool.
        """
        self.checkIsFrozen()
        if not isinstance(value, bool):
            raise ValueError(f"runningStatisticsAlwaysFloat needs to be set to a bool, given {value!r}")
        logger.warning(
            "Options.Precision.runningStatisticsAlwaysFloat is deprecated and has no effect: running statistics keep the "
            "dtype of the model's buffers (given %s).",
            value,
        )
        return self
