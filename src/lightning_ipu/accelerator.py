"""IPUAccelerator: how many IPUs there are, what they are called, and what they report."""

from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from lightning_ipu import device_count
from lightning_ipu._lightning import Lightning


class AcceleratorBody:
    """IPUs, or the software IPU: ``Trainer(accelerator="ipu", devices=N)``.

    ``devices`` is the number of IPUs, a power of two from 1 to 64; ``"auto"`` is 1. The software IPU is always there, so this
    accelerator is always available; ``accelerator="auto"`` never chooses it.
    """

    lightning: Lightning

    def __init__(self) -> None:
        super().__init__()
        self._statistics: Optional[Callable[[], Dict[str, float]]] = None
        self._with_cpu_statistics = False
        self._monitors: List[Tuple[Any, Optional[bool]]] = []

    def setup_device(self, device: torch.device) -> None:
        """Nothing: a device is attached by the first call of a compiled step."""

    def prepare_monitors(self, trainer: Any) -> None:
        """Makes DeviceStatsMonitor ask for the IPU's figures. Called before callbacks are set up."""
        monitor = self.lightning.name("callbacks", "DeviceStatsMonitor")
        for callback in trainer.callbacks:
            if isinstance(callback, monitor) and hasattr(callback, "_cpu_stats"):
                # The host's tensors are on the CPU, so the monitor takes the CPU for the device: with cpu_stats=False it would log
                # nothing, with None it would want psutil. With True it logs this accelerator's answer.
                self._monitors.append((callback, callback._cpu_stats))
                callback._cpu_stats = True
        self._with_cpu_statistics = any(wanted for _, wanted in self._monitors)

    def setup(self, trainer: Any) -> None:
        """Called once before each run."""
        self._statistics = getattr(trainer.strategy, "device_statistics", None)

    def teardown(self) -> None:
        """Leaves DeviceStatsMonitor as it was; the strategy releases the devices."""
        for callback, wanted in self._monitors:
            callback._cpu_stats = wanted
        self._monitors = []

    @classmethod
    def parse_devices(cls, devices: Any) -> int:
        """The number of IPUs in ``devices``.

        Raises:
            MisconfigurationException: not a power of two from 1 to 64.
        """
        try:
            return device_count.parse(devices)
        except ValueError as error:
            raise cls.lightning.misconfiguration(str(error)) from None

    @staticmethod
    def get_parallel_devices(devices: int) -> List[torch.device]:
        """One device per IPU."""
        return [torch.device("ipu", index) for index in range(devices)]

    @staticmethod
    def auto_device_count() -> int:
        """1: more replicas change the effective batch, which only the user can want."""
        return 1

    @staticmethod
    def is_available() -> bool:
        """True: where there is no IPU, the software IPU runs."""
        return True

    @staticmethod
    def name() -> str:
        """``ipu``."""
        return "ipu"

    def get_device_stats(self, device: Any) -> Dict[str, float]:
        """Figures of the last call of the device, for DeviceStatsMonitor."""
        figures = dict(self._statistics()) if self._statistics is not None else {}
        if self._with_cpu_statistics:
            figures.update(self.lightning.name("accelerators.cpu", "get_cpu_stats")())
        return figures

    @classmethod
    def register_accelerators(cls, accelerator_registry: Any) -> None:
        """Puts "ipu" into a registry of Lightning's."""
        accelerator_registry.register("ipu", cls, description="Graphcore IPU, or the software IPU", override=True)
