"""Which replicas share a value of a parameter."""

from dataclasses import dataclass
from typing import List


@dataclass(frozen=True)
class ReplicaGroups:
    """Replicas in groups of one size.

    Attributes:
        n_replicas: of the whole program.
        size: replicas of a group; a divisor of n_replicas.
        is_orthogonal: replica r is in group r % n_groups instead of r // size.
        reads_all: whether the host reads one value per replica instead of one per group.
    """

    n_replicas: int
    size: int
    is_orthogonal: bool = False
    reads_all: bool = False

    @property
    def n_groups(self) -> int:
        return self.n_replicas // self.size

    def group_of(self, replica: int) -> int:
        """The group of a replica."""
        return replica % self.n_groups if self.is_orthogonal else replica // self.size

    @property
    def read_order(self) -> List[int]:
        """The group that each value read by the host comes from."""
        return [self.group_of(r) for r in range(self.n_replicas)] if self.reads_all else list(range(self.n_groups))
