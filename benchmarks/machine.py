"""What the figures were measured on."""

import os
import platform
from dataclasses import dataclass
from typing import Optional

import torch


@dataclass(frozen=True)
class Machine:
    """The computer and its software."""

    processor: str
    n_cores: int
    memory_bytes: int
    system: str
    python: str
    torch: str
    lightning: str
    n_threads: int
    load: float

    def text(self) -> str:
        """Two lines, the second a warning where something else runs."""
        line = (
            f"{self.processor}, {self.n_cores} cores, {self.memory_bytes / 2**30:.0f} GiB; {self.system}; Python {self.python}, "
            f"torch {self.torch}, lightning {self.lightning}; {self.n_threads} threads"
        )
        busy = f"\nThe machine is not quiet (load {self.load:.1f}): read the ratios with care." if self.load > 0.5 else ""
        return line + busy


def describe(threads: Optional[int]) -> Machine:
    """This machine now."""
    return Machine(
        processor=_processor(),
        n_cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        torch=torch.__version__,
        lightning=_lightning_version(),
        n_threads=threads or torch.get_num_threads(),
        load=os.getloadavg()[0],
    )


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _lightning_version() -> str:
    try:
        import lightning
    except ImportError:
        return "none"
    return lightning.__version__
