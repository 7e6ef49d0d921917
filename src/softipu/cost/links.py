"""Time of transfers between IPUs: along a pipeline, and of all-reduces between replicas."""

from softipu.hardware import System
from softipu.report.estimate import Estimate


def link_bytes_per_second(system: System) -> float:
    """Between neighbours of a ring, one direction, as a large transfer gets it."""
    return system.n_ring_links * system.ipu.link_bytes_per_second * system.ipu.link_efficiency_fraction


def hop_seconds(system: System, n_ipus: int) -> float:
    """One synchronisation over ``n_ipus``: 2 x hops x delay, hops = 1 + (n / 2) / 2 (PopLibs' model of the ladder)."""
    return 2 * system.ipu.link_hop_seconds * (1 + (n_ipus // 2) / 2)


def pipeline_seconds(system: System, n_bytes: float, n_ipus: int) -> Estimate:
    """Sending ``n_bytes`` from one stage to the next, all stages at once."""
    if not n_bytes:
        return Estimate()
    return Estimate(datasheet=n_bytes / link_bytes_per_second(system), formula=hop_seconds(system, n_ipus))


def all_reduce_seconds(system: System, n_bytes: float, *, n_replicas: int, n_ipus_per_replica: int, n_tensors: int) -> Estimate:
    """Adding up ``n_bytes`` on every IPU over the replicas: a ring within a rack, then one over racks.

    A ring of r members sends 2 (r - 1) / r of the bytes past each of them. Replicas of several IPUs lie side by side on the ladder, so
    the rings of a replica's IPUs share its links: two IPUs stand on one rung, and k IPUs make max(1, k / 2) rings a link.
    """
    if n_replicas < 2 or not n_bytes:
        return Estimate()
    in_rack = max(1, min(n_replicas, system.n_ipus_per_rack // n_ipus_per_replica))
    racks = -(-n_replicas // in_rack)
    shared = max(1.0, n_ipus_per_replica / 2)
    seconds = 2 * (in_rack - 1) / in_rack * n_bytes * shared / link_bytes_per_second(system)
    hops = 2 * (in_rack - 1) * hop_seconds(system, 2)
    if racks > 1:
        out = 2 * (racks - 1) / racks * n_bytes / in_rack
        seconds += out * system.n_ipus_per_machine / system.gateway_bytes_per_second
        hops += 2 * (racks - 1) * system.gateway_hop_seconds
    return Estimate(datasheet=seconds, formula=hops * n_tensors)
