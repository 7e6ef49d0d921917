"""Where programs for PopTorch look for the executor's class."""

from softipu.poptorch.executor.executor import PoplarExecutor

__all__ = ["PoplarExecutor"]
