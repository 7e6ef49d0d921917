"""Time of transfers between host and IPUs."""

from softipu.hardware import Calibration, System
from softipu.report.estimate import Estimate


def micro_batch_seconds(system: System, calibration: Calibration, n_bytes: float, *, n_ipus_used: int, n_stages_fed: int) -> Estimate:
    """One micro-batch of every replica from the host.

    Args:
        n_bytes: of one replica's micro-batch, in and out.
        n_ipus_used: IPUs of all replicas over the number of replicas: how many replicas share a machine's link.
        n_stages_fed: stages that read from the host; each waits for it once a pipeline cycle.
    """
    if not n_bytes:
        return Estimate()
    replicas_per_machine = max(1.0, system.n_ipus_per_machine / n_ipus_used)
    transfer = n_bytes * replicas_per_machine / system.host_bytes_per_second
    return Estimate(datasheet=transfer, fitted=n_stages_fed * calibration.host_sync_seconds.value if system.host_is_remote else 0.0)
