"""One IPU chip."""

from dataclasses import dataclass
from typing import Mapping

from softipu.hardware.sourced import sourced_field


@dataclass(frozen=True)
class Ipu:
    """A chip: tiles with memory of their own, an all-to-all exchange, links to other chips.

    Attributes:
        name: as the vendor calls it.
        n_tiles: processors, each with its own memory.
        n_workers_per_tile: threads that take turns, one instruction each; a tile issues one instruction per cycle.
        sram_bytes_per_tile: memory of a tile.
        stack_bytes_per_tile: stacks of the worker threads and the supervisor.
        clock_hz: cycles per second.
        amp_macs_per_tile_per_cycle_half: multiply-accumulates of half inputs into half partials.
        amp_macs_per_tile_per_cycle_half_float: of half inputs into float partials.
        amp_macs_per_tile_per_cycle_float: of float inputs.
        amp_input_channels_half: inner products that the matrix unit takes at a time, half inputs.
        amp_input_channels_float: the same for float inputs.
        amp_output_channels: results that it accumulates side by side.
        vector_bytes_per_cycle: width of an arithmetic instruction outside the matrix unit.
        load_bytes_per_cycle, store_bytes_per_cycle: between a tile's memory and its registers.
        copy_bytes_per_cycle: memory to memory within a tile.
        exchange_bytes_per_tile_per_cycle: received from other tiles.
        sync_cycles: of one synchronisation of all tiles of a chip.
        n_links: IPU-Links of a chip.
        link_bytes_per_second: of one link, one direction.
        link_efficiency_fraction: of it that a large transfer gets.
        link_hop_seconds: delay of a synchronisation per hop between chips.
    """

    name: str
    n_tiles: int
    n_workers_per_tile: int
    sram_bytes_per_tile: int
    stack_bytes_per_tile: int
    clock_hz: float
    amp_macs_per_tile_per_cycle_half: int
    amp_macs_per_tile_per_cycle_half_float: int
    amp_macs_per_tile_per_cycle_float: int
    amp_input_channels_half: int
    amp_input_channels_float: int
    amp_output_channels: int
    vector_bytes_per_cycle: int
    load_bytes_per_cycle: int
    store_bytes_per_cycle: int
    copy_bytes_per_cycle: int
    exchange_bytes_per_tile_per_cycle: int
    sync_cycles: int
    n_links: int
    link_bytes_per_second: float
    link_efficiency_fraction: float
    link_hop_seconds: float
    sources: Mapping[str, str] = sourced_field()

    @property
    def sram_bytes(self) -> int:
        """Memory of all tiles."""
        return self.n_tiles * self.sram_bytes_per_tile

    def peak_flops_per_second(self, *, bits: int) -> float:
        """Of the matrix unit with inputs of 16 or 32 bits, a multiply-accumulate counted as two."""
        macs = self.amp_macs_per_tile_per_cycle_half if bits == 16 else self.amp_macs_per_tile_per_cycle_float
        return 2.0 * macs * self.n_tiles * self.clock_hz
