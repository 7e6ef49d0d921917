"""Factors fitted to published runs, apart from data-sheet figures; `tools/calibrate.py` writes their values."""

from softipu.hardware.calibration.assumed import ASSUMED, Assumed
from softipu.hardware.calibration.factors import Calibration, Factor, load

CALIBRATION = load()

__all__ = ["ASSUMED", "Assumed", "CALIBRATION", "Calibration", "Factor", "load"]
