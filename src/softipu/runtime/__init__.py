"""Runs a Step on the CPU."""

from softipu.runtime.batch import BatchShape
from softipu.runtime.device_memory import DeviceMemory, RandomStream
from softipu.runtime.outputs import OutputRule, Returned
from softipu.runtime.program import Program, UpdateProgram

__all__ = ["BatchShape", "DeviceMemory", "OutputRule", "Program", "RandomStream", "Returned", "UpdateProgram"]
