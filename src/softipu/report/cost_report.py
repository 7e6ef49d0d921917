"""What a step costs on a system: memory of every IPU, time of every phase. Frozen, and JSON-able by ``as_dict``."""

from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, Dict, Mapping, Tuple

from softipu.report.estimate import Estimate
from softipu.report.plan import Plan

REPORT_SCHEMA = 1


class MemoryCategory(Enum):
    """What bytes on an IPU hold. The order is that of tables."""

    WEIGHTS = "weights"
    OPTIMIZER_STATE = "optimizer state"
    ACCUMULATORS = "gradient accumulators"
    STASHED = "activations stashed"
    LIVE = "activations live"
    TEMPORARY = "temporary memory of ops"
    EXCHANGE = "exchange buffers"
    HOST_IO = "host I/O buffers"
    CODE = "code and vertex state"
    STACK = "stack"

    @property
    def always_live(self) -> bool:
        """Whether the bytes are taken for the whole run, not only while some op runs."""
        return self not in (MemoryCategory.LIVE, MemoryCategory.TEMPORARY, MemoryCategory.EXCHANGE)


class Phase(Enum):
    """What the time between two weight updates is spent on. The order is that of tables."""

    COMPUTE = "compute"
    EXCHANGE = "exchange"
    SYNC = "sync"
    IPU_LINKS = "between IPUs"
    BUBBLE = "pipeline bubble"
    ALL_REDUCE = "all-reduce"
    UPDATE = "weight update"
    STREAMING = "streaming memory"
    HOST_IO = "host I/O"


@dataclass(frozen=True)
class LivePoint:
    """Memory at one op: bytes that are not always live.

    Attributes:
        op: name of the op, such as "aten.mm".
        module: path of the module that it belongs to.
        phase: "forward", "backward" or "recompute".
        live_bytes: activations and gradients that exist while it runs.
        temporary_bytes: what the op itself needs besides.
    """

    op: str
    module: str
    phase: str
    live_bytes: float
    temporary_bytes: float


@dataclass(frozen=True)
class TileBand:
    """``n_tiles`` tiles that hold between ``low_bytes`` and ``high_bytes``."""

    low_bytes: float
    high_bytes: float
    n_tiles: int


@dataclass(frozen=True)
class IpuMemory:
    """Memory of one IPU of a replica.

    Attributes:
        ipu: IPU within the replica.
        what: what runs there, in words.
        by_category: bytes at the moment of the highest use.
        available_bytes: memory of the IPU.
        n_tiles: tiles of the IPU.
        tile_available_bytes: memory of a tile.
        worst_tile_bytes: use of the fullest tile.
        tiles: histogram of the use of tiles.
        liveness: the not-always-live memory over the IPU's part of a micro-batch, at most 256 points, peaks kept.
    """

    ipu: int
    what: str
    by_category: Mapping[MemoryCategory, Estimate]
    available_bytes: int
    n_tiles: int
    tile_available_bytes: int
    worst_tile_bytes: float
    tiles: Tuple[TileBand, ...]
    liveness: Tuple[LivePoint, ...]

    @property
    def total(self) -> Estimate:
        return Estimate.sum(self.by_category.values())

    @property
    def fits(self) -> bool:
        """Whether the fullest tile holds what is on it."""
        return self.worst_tile_bytes <= self.tile_available_bytes

    @property
    def overflow_bytes(self) -> float:
        """How much the IPU must lose for its fullest tile to fit; 0 when it does."""
        return max(0.0, (self.worst_tile_bytes - self.tile_available_bytes) * self.n_tiles)


@dataclass(frozen=True)
class StageTime:
    """Seconds of one stage for one micro-batch, by phase of the machine (compute, exchange, sync, between IPUs).

    Attributes:
        stage: position in the plan.
        ipu: where it runs.
        begin: path of its first module.
        forward: of the forward pass.
        backward: of the backward pass with recomputation; empty in inference.
        recompute_seconds: what of ``backward`` is forward work done again.
    """

    stage: int
    ipu: int
    begin: str
    forward: Mapping[Phase, Estimate]
    backward: Mapping[Phase, Estimate]
    recompute_seconds: float

    @property
    def seconds(self) -> float:
        return Estimate.sum(self.forward.values()).total + Estimate.sum(self.backward.values()).total


@dataclass(frozen=True)
class ModuleTime:
    """Seconds, FLOPs of one micro-batch in one module for one op family and direction.

    Attributes:
        module: path; ops of submodules are not in it.
        family: op family such as "matmul".
        direction: "forward", "backward" or "recompute".
        stage: position in the plan.
        seconds: time on the IPU.
        flops: multiply and add counted as two.
        n_ops: ops that run.
    """

    module: str
    family: str
    direction: str
    stage: int
    seconds: Estimate
    flops: float
    n_ops: int


@dataclass(frozen=True)
class StepTime:
    """Time from one weight update to the next (inference: of one device iteration).

    Attributes:
        by_phase: on the slowest IPU; sums to the time of the step.
        cycle_seconds: of one steady pipeline cycle: the slowest IPU's forward and backward of one micro-batch.
        n_cycles: pipeline cycles, ramps included.
        ramp_seconds: time in which not all stages work.
        flops: useful FLOPs of all replicas, recomputation not counted.
        peak_flops_per_second: of all IPUs at the matmul type of the step.
    """

    by_phase: Mapping[Phase, Estimate]
    cycle_seconds: float
    n_cycles: int
    ramp_seconds: float
    flops: float
    peak_flops_per_second: float

    @property
    def total(self) -> Estimate:
        return Estimate.sum(self.by_phase.values())

    @property
    def utilisation_fraction(self) -> float:
        """Useful FLOPs over what the IPUs could do at peak in the time of the step."""
        return self.flops / (self.total.total * self.peak_flops_per_second) if self.total.total else 0.0


@dataclass(frozen=True)
class CostReport:
    """Memory and time of a plan on a system.

    Attributes:
        system: name of the system, such as "bow-pod16".
        ipu: name of its IPU, such as "Bow".
        training: whether the step has a backward pass.
        plan: what was priced.
        memory: one entry per IPU of a replica.
        stages: one entry per stage.
        modules: time by module, op family and direction.
        time: of a step.
        items_per_second: of all replicas.
        assumptions: what was assumed where nothing published says; sentences.
    """

    system: str
    ipu: str
    training: bool
    plan: Plan
    memory: Tuple[IpuMemory, ...]
    stages: Tuple[StageTime, ...]
    modules: Tuple[ModuleTime, ...]
    time: StepTime
    items_per_second: float
    assumptions: Tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return all(ipu.fits for ipu in self.memory)

    @property
    def worst_ipu(self) -> IpuMemory:
        """The IPU with the fullest tile."""
        return max(self.memory, key=lambda m: m.worst_tile_bytes)

    def as_dict(self) -> Dict[str, Any]:
        """JSON-able form: {"schema": 1, ...}; enumerations by value, estimates with their total, derived figures included."""
        data = _plain(self)
        data.update(schema=REPORT_SCHEMA, fits=self.fits)
        data["time"].update(total=_plain(self.time.total), utilisation_fraction=self.time.utilisation_fraction)
        for entry, ipu in zip(data["memory"], self.memory):
            entry.update(total=_plain(ipu.total), fits=ipu.fits, overflow_bytes=ipu.overflow_bytes)
        return data


def _plain(value: Any) -> Any:
    if isinstance(value, Plan):
        return value.as_dict()
    if isinstance(value, Estimate):
        return {"total": value.total, **{f.name: getattr(value, f.name) for f in fields(value)}}
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {_plain(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value
