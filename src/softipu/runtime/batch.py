"""How the rows of a host batch fall on micro-batches."""

from dataclasses import dataclass
from typing import Iterator, List, Tuple

import torch


@dataclass(frozen=True)
class BatchShape:
    """How many micro-batches a call runs.

    Innermost last: device iteration, accumulation step, replica. Replicas of one input group read the same rows.

    Attributes:
        n_iterations: device iterations; one weight update each.
        n_accumulated: micro-batches of a replica per weight update.
        n_replicas: data-parallel copies.
        input_group_size: replicas that share their input.
        orthogonal_groups: replica r reads group r % n_groups instead of r // input_group_size.
    """

    n_iterations: int = 1
    n_accumulated: int = 1
    n_replicas: int = 1
    input_group_size: int = 1
    orthogonal_groups: bool = False

    @property
    def n_groups(self) -> int:
        return self.n_replicas // self.input_group_size

    @property
    def n_slices(self) -> int:
        """Pieces that a host batch is cut into."""
        return self.n_iterations * self.n_accumulated * self.n_groups

    @property
    def n_micro_batches(self) -> int:
        return self.n_iterations * self.n_accumulated * self.n_replicas

    def slice_index(self, iteration: int, accumulated: int, replica: int) -> int:
        """Which of the ``n_slices`` pieces a replica reads."""
        group = replica % self.n_groups if self.orthogonal_groups else replica // self.input_group_size
        return (iteration * self.n_accumulated + accumulated) * self.n_groups + group

    def order(self) -> Iterator[Tuple[int, int, int]]:
        """(iteration, accumulation step, replica) in the order of the rows."""
        for iteration in range(self.n_iterations):
            for accumulated in range(self.n_accumulated):
                for replica in range(self.n_replicas):
                    yield iteration, accumulated, replica

    def cut(self, tensor: torch.Tensor) -> List[torch.Tensor]:
        """Views of the pieces of ``tensor`` along dim 0; a 0-d tensor goes whole to every micro-batch."""
        if tensor.dim() == 0:
            return [tensor] * self.n_slices
        if self.n_slices == 1:
            return [tensor]
        return list(tensor.split(tensor.shape[0] // self.n_slices))
