"""The IPUs. Each figure has its source on its line; the tags of repositories are owner/name."""

from typing import Dict

from softipu.hardware.ipu import Ipu
from softipu.hardware.sourced import Sourced, from_figures

_TILE_COUNT = "graphcore/poptorch popart_compiler/source/Utils.cpp, getNumTilesPerIpu"
_WORKERS = "Jia et al. 2019 (arXiv 1912.03413); Louw and McIntosh-Smith 2021"
_AMP_HALF = "from the peak rate: half TFLOPS / (2 x tiles x clock)"
_AMP_MIXED = "graphcore/poplibs lib/poplin/PerformanceEstimation.hpp: half inputs, float partials use 8 of 16 units"
_AMP_FLOAT = "from the peak rate: float TFLOPS / (2 x tiles x clock)"
_AMP_UNITS = "graphcore/poplibs lib/poplin/PerformanceEstimation.hpp: 16 convolution units of a 1x1 convolution"
_VECTOR = "64-bit data path: graphcore/poplibs getVectorWidth; Louw and McIntosh-Smith 2021"
_LOAD_STORE = "16 B load and 8 B store a cycle reproduce the vendor's 45 and 65 TB/s"
_COPY = "graphcore/poplibs ConvModel.cpp and Target::getMemcpyBytesPerCycle: 8 B a cycle"
_EXCHANGE = "Target::getExchangeBytesPerCycle: 4; x tiles x clock reproduces the vendor's 8 TB/s"
_SYNC = "graphcore/poplibs lib/popnn/CTCLossPlan.cpp: 90 cycles"
_LINK = "graphcore/poplibs lib/poplibs_test/Util.cpp, addGlobalExchangeConstraints: 128 Gbit/s a link"
_LINK_EFFICIENCY = "graphcore/poplibs lib/poplibs_test/Util.cpp, addGlobalExchangeConstraints: 0.85"
_HOP = "graphcore/poplibs lib/poplibs_test/Util.cpp, setGlobalSyncLatency: 15 ns a hop"
_STACK = "Poplar memory report in the TensorFlow for IPU guide: 3.85 MB over 1,216 tiles"
_SRAM_MK2 = "Poplar memory report in EPCCed/eidf-docs: 624.0 kB a tile, 897.0 MB an IPU"

GC2 = from_figures(
    Ipu,
    name="GC2",
    n_tiles=Sourced(1216, _TILE_COUNT),
    n_workers_per_tile=Sourced(6, _WORKERS),
    sram_bytes_per_tile=Sourced(256 * 1024, "Poplar memory report in the TensorFlow for IPU guide: 256.0 kB a tile, 304 MB an IPU"),
    stack_bytes_per_tile=Sourced(3168, _STACK),
    clock_hz=Sourced(1.6e9, "Poplar memory report in the TensorFlow for IPU guide: 1,600 MHz"),
    amp_macs_per_tile_per_cycle_half=Sourced(32, _AMP_HALF + ": 124.5 (Jia et al. 2019)"),
    amp_macs_per_tile_per_cycle_half_float=Sourced(32, "Jia et al. 2019: 124.5 TFLOPS in mixed precision"),
    amp_macs_per_tile_per_cycle_float=Sourced(8, _AMP_FLOAT + ": 31.1 (Jia et al. 2019)"),
    amp_input_channels_half=Sourced(16, _AMP_UNITS),
    amp_input_channels_float=Sourced(8, _AMP_UNITS),
    amp_output_channels=Sourced(8, "graphcore/poplibs lib/poplin/PerformanceEstimation.hpp: 8 convolution units"),
    vector_bytes_per_cycle=Sourced(8, _VECTOR),
    load_bytes_per_cycle=Sourced(16, _LOAD_STORE),
    store_bytes_per_cycle=Sourced(8, _LOAD_STORE),
    copy_bytes_per_cycle=Sourced(8, _COPY),
    exchange_bytes_per_tile_per_cycle=Sourced(4, _EXCHANGE),
    sync_cycles=Sourced(90, _SYNC),
    n_links=Sourced(10, "thecharlieblake.co.uk/ipus: 10 links, 320 GB/s"),
    link_bytes_per_second=Sourced(16e9, _LINK),
    link_efficiency_fraction=Sourced(0.85, _LINK_EFFICIENCY),
    link_hop_seconds=Sourced(15e-9, _HOP),
)

GC200 = from_figures(
    Ipu,
    name="GC200",
    n_tiles=Sourced(1472, _TILE_COUNT),
    n_workers_per_tile=Sourced(6, _WORKERS),
    sram_bytes_per_tile=Sourced(624 * 1024, _SRAM_MK2),
    stack_bytes_per_tile=Sourced(3168, _STACK),
    clock_hz=Sourced(1.33e9, "mlcommons/training_results_v1.0 and v1.1 Graphcore/systems/*.json: 1.33 GHz"),
    amp_macs_per_tile_per_cycle_half=Sourced(64, _AMP_HALF + ": 250 (IPU-M2000 data sheet)"),
    amp_macs_per_tile_per_cycle_half_float=Sourced(32, _AMP_MIXED),
    amp_macs_per_tile_per_cycle_float=Sourced(16, _AMP_FLOAT + ": 62.5 (IPU-M2000 data sheet)"),
    amp_input_channels_half=Sourced(16, _AMP_UNITS),
    amp_input_channels_float=Sourced(8, _AMP_UNITS),
    amp_output_channels=Sourced(16, _AMP_UNITS),
    vector_bytes_per_cycle=Sourced(8, _VECTOR),
    load_bytes_per_cycle=Sourced(16, _LOAD_STORE),
    store_bytes_per_cycle=Sourced(8, _LOAD_STORE),
    copy_bytes_per_cycle=Sourced(8, _COPY),
    exchange_bytes_per_tile_per_cycle=Sourced(4, _EXCHANGE),
    sync_cycles=Sourced(90, _SYNC),
    n_links=Sourced(10, "thecharlieblake.co.uk/ipus: 10 links, 320 GB/s"),
    link_bytes_per_second=Sourced(16e9, _LINK),
    link_efficiency_fraction=Sourced(0.85, _LINK_EFFICIENCY),
    link_hop_seconds=Sourced(15e-9, _HOP),
)

BOW = from_figures(
    Ipu,
    name="Bow",
    n_tiles=Sourced(1472, _TILE_COUNT),
    n_workers_per_tile=Sourced(6, _WORKERS),
    sram_bytes_per_tile=Sourced(624 * 1024, _SRAM_MK2),
    stack_bytes_per_tile=Sourced(3168, _STACK),
    clock_hz=Sourced(1.85e9, "mlcommons/training_results_v2.0 Graphcore/systems/*.json: 1.85 GHz; gc-monitor in argonne-lcf/user-guides"),
    amp_macs_per_tile_per_cycle_half=Sourced(64, _AMP_HALF + ": 350 (Bow-2000 data sheet: 1.4 PFLOPS for 4)"),
    amp_macs_per_tile_per_cycle_half_float=Sourced(32, _AMP_MIXED),
    amp_macs_per_tile_per_cycle_float=Sourced(16, _AMP_FLOAT + ": 87.5 (Bow Pod256 data sheet: 22.31 PFLOPS for 256)"),
    amp_input_channels_half=Sourced(16, _AMP_UNITS),
    amp_input_channels_float=Sourced(8, _AMP_UNITS),
    amp_output_channels=Sourced(16, _AMP_UNITS),
    vector_bytes_per_cycle=Sourced(8, _VECTOR),
    load_bytes_per_cycle=Sourced(16, _LOAD_STORE),
    store_bytes_per_cycle=Sourced(8, _LOAD_STORE),
    copy_bytes_per_cycle=Sourced(8, _COPY),
    exchange_bytes_per_tile_per_cycle=Sourced(4, _EXCHANGE),
    sync_cycles=Sourced(90, _SYNC),
    n_links=Sourced(10, "thecharlieblake.co.uk/ipus: 10 links, 320 GB/s"),
    link_bytes_per_second=Sourced(16e9, _LINK),
    link_efficiency_fraction=Sourced(0.85, _LINK_EFFICIENCY),
    link_hop_seconds=Sourced(15e-9, _HOP),
)

C600 = from_figures(
    Ipu,
    name="C600",
    n_tiles=Sourced(1472, _TILE_COUNT),
    n_workers_per_tile=Sourced(6, _WORKERS),
    sram_bytes_per_tile=Sourced(624 * 1024, _SRAM_MK2),
    stack_bytes_per_tile=Sourced(3168, _STACK),
    clock_hz=Sourced(1.49e9, "from the peak rate: 280 TFLOPS / (2 x 64 x 1472), bytedance/ByteMLPerf vendor_zoo/Graphcore/IPU C600.json"),
    amp_macs_per_tile_per_cycle_half=Sourced(64, "as GC200; ByteMLPerf IPU C600.json: 280 TFLOPS half, 560 in 8 bits"),
    amp_macs_per_tile_per_cycle_half_float=Sourced(32, _AMP_MIXED),
    amp_macs_per_tile_per_cycle_float=Sourced(16, _AMP_FLOAT + ": 70 (ByteMLPerf IPU C600.json)"),
    amp_input_channels_half=Sourced(16, _AMP_UNITS),
    amp_input_channels_float=Sourced(8, _AMP_UNITS),
    amp_output_channels=Sourced(16, _AMP_UNITS),
    vector_bytes_per_cycle=Sourced(8, _VECTOR + "; ByteMLPerf IPU C600.json: 17.6 TFLOPS half"),
    load_bytes_per_cycle=Sourced(16, _LOAD_STORE),
    store_bytes_per_cycle=Sourced(8, _LOAD_STORE),
    copy_bytes_per_cycle=Sourced(8, _COPY),
    exchange_bytes_per_tile_per_cycle=Sourced(4, _EXCHANGE),
    sync_cycles=Sourced(90, _SYNC),
    n_links=Sourced(4, "bytedance/ByteMLPerf backends/IPU/README.md: 4 links used, 64 GB/s each way"),
    link_bytes_per_second=Sourced(16e9, _LINK),
    link_efficiency_fraction=Sourced(0.85, _LINK_EFFICIENCY),
    link_hop_seconds=Sourced(15e-9, _HOP),
)

IPUS: Dict[str, Ipu] = {ipu.name: ipu for ipu in (GC2, GC200, BOW, C600)}
