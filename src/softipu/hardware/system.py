"""Several IPUs in machines, their links, and the hosts that feed them."""

from dataclasses import dataclass
from typing import Mapping

from softipu.errors import Error
from softipu.hardware.ipu import Ipu
from softipu.hardware.sourced import sourced_field


@dataclass(frozen=True)
class System:
    """What a program runs on.

    Attributes:
        name: as it is asked for, such as "bow-pod16".
        ipu: the chip.
        n_ipus: of all machines.
        n_ipus_per_machine: on one board or blade.
        n_ipus_per_rack: within reach of IPU-Links; beyond it transfers take the GW-Links.
        n_ring_links: links between neighbours of a ring over the IPUs of a rack.
        gateway_bytes_per_second: of one machine to another rack, one direction.
        gateway_hop_seconds: of one step of a transfer between racks, whatever its size.
        host_bytes_per_second: of one machine from and to its host, one direction.
        host_is_remote: whether a network lies between a machine and its host.
        streaming_bytes: memory of a machine outside its chips; 0 where it is the host's.
        streaming_bytes_per_second: of one chip, one direction.
    """

    name: str
    ipu: Ipu
    n_ipus: int
    n_ipus_per_machine: int
    n_ipus_per_rack: int
    n_ring_links: int
    gateway_bytes_per_second: float
    gateway_hop_seconds: float
    host_bytes_per_second: float
    host_is_remote: bool
    streaming_bytes: float
    streaming_bytes_per_second: float
    sources: Mapping[str, str] = sourced_field()

    def __post_init__(self) -> None:
        if self.n_ipus < 1 or self.n_ipus_per_machine > self.n_ipus:
            raise Error(f"System {self.name!r} has {self.n_ipus} IPUs in machines of {self.n_ipus_per_machine}; give at least one machine.")

    @property
    def n_machines(self) -> int:
        return -(-self.n_ipus // self.n_ipus_per_machine)
