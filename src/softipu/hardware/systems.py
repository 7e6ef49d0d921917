"""The systems that a plan can be priced on. Each figure has its source on its line."""

from typing import Dict

from softipu.errors import Error
from softipu.hardware.ipu import Ipu
from softipu.hardware.ipus import BOW, C600, GC2, GC200
from softipu.hardware.sourced import Sourced, from_figures
from softipu.hardware.system import System

POD_SIZES = (4, 16, 64, 128, 256)


def _pod(name: str, ipu: Ipu, n_ipus: int, data_sheet: str) -> System:
    """A machine of four IPUs, or a POD of them; a rack holds 64."""
    return from_figures(
        System,
        name=name,
        ipu=ipu,
        n_ipus=Sourced(n_ipus, data_sheet),
        n_ipus_per_machine=Sourced(4, "Bow-2000 and IPU-M2000 data sheets: 4 IPUs a machine"),
        n_ipus_per_rack=Sourced(min(64, n_ipus), "Bow Pod64 data sheet: 64 IPUs a rack, joined to others by GW-Links"),
        n_ring_links=Sourced(2, "graphcore/poplibs lib/poplibs_test/Util.cpp: 2 links up and 2 down the ladder of IPUs"),
        gateway_bytes_per_second=Sourced(25e9, "Bow-2000 data sheet: 2 x 100 Gbit/s GW-Links a machine"),
        gateway_hop_seconds=Sourced(5e-6, "assumed: a message and its answer over Ethernet through two gateways"),
        host_bytes_per_second=Sourced(12.5e9, "Bow-2000 data sheet: 100 Gbit/s Ethernet to the host a machine"),
        host_is_remote=Sourced(True, "EPCCed/eidf-docs: all data to the IPUs go through Ethernet"),
        streaming_bytes=Sourced(256e9, "Bow-2000 data sheet: up to 256 GB a machine"),
        streaming_bytes_per_second=Sourced(10e9, "assumed: no primary source; DDR4 of a machine shared by 4 IPUs"),
    )


def _card(name: str, ipu: Ipu, n_ipus: int, per_card: int, links: int, links_source: str, count_source: str) -> System:
    """PCIe cards in a host."""
    return from_figures(
        System,
        name=name,
        ipu=ipu,
        n_ipus=Sourced(n_ipus, count_source),
        n_ipus_per_machine=Sourced(min(per_card, n_ipus), count_source),
        n_ipus_per_rack=Sourced(n_ipus, "cards of one host are joined by IPU-Links"),
        n_ring_links=Sourced(links, links_source),
        gateway_bytes_per_second=Sourced(25e9, "assumed: no gateway; one host's network would be as fast"),
        gateway_hop_seconds=Sourced(5e-6, "assumed: as of a network"),
        host_bytes_per_second=Sourced(
            32e9, "PCIe Gen4 x16, one direction: Louw and McIntosh-Smith 2021; ByteMLPerf backends/IPU/README.md"
        ),
        host_is_remote=Sourced(False, "a card on the host's own PCIe"),
        streaming_bytes=Sourced(0.0, "none: the host's memory, over PCIe"),
        streaming_bytes_per_second=Sourced(32e9, "PCIe Gen4 x16, one direction"),
    )


_C600 = "bytedance/ByteMLPerf backends/IPU/README.md: one IPU a card, up to 8 cards a host"
_C2 = "Jia et al. 2019: a C2 card holds 2 IPUs"

_ALL = (
    _card("c2", GC2, 2, 2, 4, "Jia et al. 2019: 64 GB/s between the two IPUs of a C2 card", _C2),
    _card(
        "c2-x8", GC2, 16, 2, 2, "graphcore/poplibs lib/poplibs_test/Util.cpp: 2 links up and 2 down the ladder", _C2 + ", 8 cards a server"
    ),
    _card("c600", C600, 1, 1, 4, "bytedance/ByteMLPerf backends/IPU/README.md: 4 links, 64 GB/s each way", _C600),
    *(
        _card(f"c600-x{n}", C600, n, 1, 4, "bytedance/ByteMLPerf backends/IPU/README.md: 4 links, 64 GB/s each way", _C600)
        for n in (2, 4, 8)
    ),
    _pod("m2000", GC200, 4, "IPU-M2000 data sheet"),
    *(_pod(f"m2000-pod{n}", GC200, n, f"IPU-POD{n} data sheet") for n in POD_SIZES),
    _pod("bow-2000", BOW, 4, "Bow-2000 data sheet"),
    *(_pod(f"bow-pod{n}", BOW, n, f"Bow Pod{n} data sheet") for n in POD_SIZES),
)

SYSTEMS: Dict[str, System] = {system.name: system for system in _ALL}


def find_system(name: str) -> System:
    """The system of that name; "pod16" means "m2000-pod16", and letter case, blanks and underscores do not matter.

    Raises:
        Error: an unknown name; lists those that exist.
    """
    key = "-".join(name.lower().replace("_", " ").replace("-", " ").split())
    for candidate in (key, f"m2000-{key}", key.replace("ipu-", "m2000-", 1)):
        if candidate in SYSTEMS:
            return SYSTEMS[candidate]
    raise Error(f"Unknown system {name!r}. Known are {', '.join(SYSTEMS)}.")
