"""What is there to run on."""

from softipu.capture import current


def isRunningOnIpu() -> bool:
    """True while a module's forward is captured for the IPU, False when the same module runs on the host."""
    return current() is not None


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """Whether ``num_ipus`` real IPUs can be had: never, in software."""
    return False


def ipuHardwareVersion() -> int:
    """Version of the real IPUs (1, 2 or 21). AssertionError: there are none."""
    raise AssertionError("No IPU hardware is available: this is the software IPU. Ask poptorch.ipuHardwareIsAvailable() first.")
