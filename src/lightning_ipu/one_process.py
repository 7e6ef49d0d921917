"""A strategy whose devices are all driven by one process: there is nobody to talk to."""

from typing import Any, Optional

import torch

from lightning_ipu._lightning import Lightning


class OneProcess:
    """Ranks and collective operations of a strategy with one process."""

    @staticmethod
    def refuse_other_processes(environment: Any, lightning: Lightning) -> None:
        """Raises MisconfigurationException if a launcher has started several processes: each would train alone, and write as the first."""
        n_processes = environment.world_size() if environment is not None else 1
        if n_processes > 1:
            raise lightning.misconfiguration(
                f"{type(environment).__name__} says that this is one of {n_processes} processes, but a Trainer with accelerator='ipu' "
                "drives all its IPUs from one. Start the script once, with devices=N."
            )

    @property
    def global_rank(self) -> int:
        """0: replicas live in one process."""
        return 0

    @property
    def local_rank(self) -> int:
        """0: replicas live in one process."""
        return 0

    @property
    def node_rank(self) -> int:
        """0: replicas live in one process."""
        return 0

    @property
    def world_size(self) -> int:
        """1: replicas live in one process."""
        return 1

    @property
    def is_global_zero(self) -> bool:
        """True: there is one process."""
        return True

    def reduce(self, tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
        """The tensor: values of replicas are joined already."""
        return tensor

    def reduce_boolean_decision(self, decision: bool, all: bool = True) -> bool:
        """The decision."""
        return decision

    def barrier(self, name: Optional[str] = None) -> None:
        """Nothing: there is one process."""

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        """The object."""
        return obj

    def all_gather(self, tensor: torch.Tensor, group: Any = None, sync_grads: bool = False) -> torch.Tensor:
        """The tensor."""
        return tensor
