"""Figures for which no published source was found, and which published runs do not fix."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Assumed:
    """Round figures.

    Attributes:
        code_bytes_per_family: code of the vertices of one op family, on every tile that runs them.
        code_bytes_per_superstep: control code, exchange sequence and vertex state of a round of compute and exchange, per tile.
        gap_fraction: of a tile's memory, what stays empty between buffers that need banks of their own.
        host_buffers: copies of a micro-batch's inputs that the device holds: the one in use.
    """

    code_bytes_per_family: float = 3000.0
    code_bytes_per_superstep: float = 200.0
    gap_fraction: float = 0.03
    host_buffers: int = 1


ASSUMED = Assumed()
