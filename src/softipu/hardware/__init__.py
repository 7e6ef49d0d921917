"""What an IPU and a POD are: frozen values, units in their names, a source for every figure. No torch."""

from softipu.hardware.calibration import CALIBRATION, Calibration
from softipu.hardware.ipu import Ipu
from softipu.hardware.ipus import BOW, C600, GC2, GC200, IPUS
from softipu.hardware.system import System
from softipu.hardware.systems import SYSTEMS, find_system

__all__ = ["BOW", "C600", "CALIBRATION", "Calibration", "GC2", "GC200", "IPUS", "Ipu", "SYSTEMS", "System", "find_system"]
