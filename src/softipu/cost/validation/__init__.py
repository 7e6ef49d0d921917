"""Published runs priced by the model: where the measured figures are known, how far off it is."""

from softipu.cost.validation.command import FORMATS, validate_output

__all__ = ["FORMATS", "validate_output"]
