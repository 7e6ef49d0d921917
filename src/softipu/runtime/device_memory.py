"""What a software IPU holds between calls: weights, buffers per replica, optimizer state, the random stream."""

from dataclasses import dataclass, field
from typing import Dict, List, Mapping

import torch

from softipu.graph.seeds import mix
from softipu.runtime.replica_groups import ReplicaGroups


@dataclass
class RandomStream:
    """The device's random numbers: every micro-batch of every call draws from a seed of its own.

    Attributes:
        seed: set by Options.randomSeed.
        n_drawn: micro-steps (device iteration x accumulation step) so far.
    """

    seed: int
    n_drawn: int = 0

    def seed_of(self, ahead: int, replica: int) -> int:
        """Seed of a replica's micro-batch, ``ahead`` micro-steps after the current one."""
        return mix(mix(self.seed, self.n_drawn + ahead), replica)


@dataclass
class DeviceMemory:
    """Tensors on the device. Buffers are one dictionary per replica; replicas may share it when the step writes none.

    All updates are in place, so a tensor's address stays what it was. A parameter in ``groups`` is a tensor [n_groups, ...] with
    one value for each group of replicas.
    """

    parameters: Dict[str, torch.Tensor]
    buffers: List[Dict[str, torch.Tensor]]
    stream: RandomStream
    optimizer_state: Dict[str, torch.Tensor] = field(default_factory=dict)
    groups: Dict[str, ReplicaGroups] = field(default_factory=dict)

    @classmethod
    def upload(
        cls, parameters: Mapping[str, torch.Tensor], buffers: Mapping[str, torch.Tensor], n_buffer_copies: int, seed: int
    ) -> "DeviceMemory":
        """Memory filled from host tensors, ``n_buffer_copies`` of the buffers."""
        return cls(
            {name: _copied(t) for name, t in parameters.items()},
            [{name: _copied(t) for name, t in buffers.items()} for _ in range(n_buffer_copies)],
            RandomStream(seed),
        )

    def write(self, parameters: Mapping[str, torch.Tensor], buffers: Mapping[str, torch.Tensor]) -> None:
        """Host to device, into every replica's copy."""
        with torch.no_grad():
            for name, tensor in parameters.items():
                self.parameters[name].copy_(tensor)
            for copy in self.buffers:
                for name, tensor in buffers.items():
                    copy[name].copy_(tensor)

    def read(self, parameters: Mapping[str, torch.Tensor], buffers: Mapping[str, torch.Tensor]) -> None:
        """Device to host, buffers from replica 0."""
        with torch.no_grad():
            for name, tensor in parameters.items():
                groups = self.groups.get(name)
                tensor.copy_(self.parameters[name] if groups is None else self.parameters[name][groups.read_order])
            for name, tensor in buffers.items():
                tensor.copy_(self.buffers[0][name])

    @property
    def n_copies(self) -> int:
        """Replicas that differ in what they hold."""
        return max([len(self.buffers), *[groups.n_replicas for groups in self.groups.values()]])

    def buffers_of(self, replica: int) -> Dict[str, torch.Tensor]:
        return self.buffers[replica if len(self.buffers) > 1 else 0]

    def parameters_of(self, replica: int) -> Dict[str, torch.Tensor]:
        """What a replica takes for its parameters."""
        if not self.groups:
            return self.parameters
        own = {name: self.parameters[name][groups.group_of(replica)] for name, groups in self.groups.items()}
        return {**self.parameters, **own}


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone(memory_format=torch.preserve_format)
