"""Runs a Step on the CPU."""

from softipu.runtime.at_once import batched
from softipu.runtime.batch import BatchShape
from softipu.runtime.device_memory import DeviceMemory, RandomStream
from softipu.runtime.engine import CannotCompile, Engine, EngineSettings
from softipu.runtime.engines import make_engine
from softipu.runtime.outputs import OutputRule, Returned
from softipu.runtime.program import Batched, Program
from softipu.runtime.update import UpdateProgram

__all__ = [
    "BatchShape",
    "Batched",
    "CannotCompile",
    "DeviceMemory",
    "Engine",
    "EngineSettings",
    "OutputRule",
    "Program",
    "RandomStream",
    "Returned",
    "UpdateProgram",
    "batched",
    "make_engine",
]
