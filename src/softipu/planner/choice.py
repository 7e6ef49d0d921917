"""A place in the space of a search, and the best stages for it."""

from dataclasses import dataclass

from softipu.planner.splitter import Split
from softipu.report.units import counted


@dataclass(frozen=True)
class Choice:
    """What a search chose.

    Attributes:
        micro_batch: items.
        n_ipus: of a replica.
        replicas: copies.
        off_chip: whether the optimizer's state is in streaming memory.
        proportion: bound of temporary memory.
        split: the stages.
    """

    micro_batch: int
    n_ipus: int
    replicas: int
    off_chip: bool
    proportion: float
    split: Split

    @property
    def n_all(self) -> int:
        """IPUs of all replicas."""
        return self.n_ipus * self.replicas

    @property
    def rate(self) -> float:
        """Items a second when every stage works and nothing else takes time: no plan of this choice is faster."""
        return self.micro_batch * self.replicas / self.split.cycle_seconds


def per_replica(n_ipus: int) -> str:
    """4 -> "4 IPUs a replica"."""
    return f"{counted(n_ipus, 'IPU')} a replica"
