"""PopTorch's enumerations. Names and values are its own, because programs store them and compare them with plain integers."""

import enum

__all__ = [
    "AutoStage",
    "CommGroupType",
    "ConnectionType",
    "DataLoaderMode",
    "HalfFloatCastingBehavior",
    "Liveness",
    "MatMulSerializationMode",
    "MeanReductionStrategy",
    "MultiConvPlanType",
    "OutputMode",
    "OverlapMode",
    "ReductionType",
    "SharingStrategy",
    "SyncPattern",
    "VariableRetrievalMode",
]


class OutputMode(enum.IntEnum):
    """Which micro-batch results one call returns."""

    Final = 0
    """The last micro-batch of every replica (what training uses unless told otherwise)."""
    EveryN = 1
    """All micro-batches of the device iterations N, 2N, 3N, ...; N is the output return period."""
    All = 2
    """Every micro-batch (what inference uses unless told otherwise)."""
    Sum = 3
    """One sum over all micro-batches for every replica."""
    Default = 4
    """All for inference, Final for training."""


class ReductionType(enum.IntEnum):
    """How gradients of micro-batches and replicas are joined."""

    Sum = 0
    Mean = 1
    NoReduction = 2


class MeanReductionStrategy(enum.IntEnum):
    """When a mean over micro-batches and replicas divides. The value differs by rounding only."""

    Running = 0
    """The accumulator holds the mean of what it has seen so far."""
    Post = 1
    """Sum first, divide once before the update."""
    PostAndLoss = 2
    """Divide by the replicas before the backward pass and by the accumulation factor after it (old behaviour)."""


class DataLoaderMode(enum.IntEnum):
    """Where the host prepares its batches."""

    Sync = 0
    """In the calling process (and its workers), when asked for."""
    Async = 1
    """In another process, ahead of time, through a ring of shared buffers."""
    AsyncRebatched = 2
    """As Async; the short batches of the workers of an iterable dataset are joined, so fewer rows are dropped."""


class SharingStrategy(enum.IntEnum):
    """How the process of an asynchronous loader starts and gets its data."""

    SharedMemory = 0
    FileSystem = 1
    Fork = 2
    ForkServer = 3


class ConnectionType(enum.IntEnum):
    """When the process takes a device."""

    Always = 0
    """From the start."""
    OnDemand = 1
    """Once the executable is ready to run."""
    Never = 2
    """Not at all: compile only; running is an error."""


class HalfFloatCastingBehavior(enum.IntEnum):
    """What an op with both float16 and float32 operands computes in. Deprecated: only HalfUpcastToFloat is left."""

    FloatDowncastToHalf = 0
    HalfUpcastToFloat = 1
    Default = 2


class SyncPattern(enum.IntEnum):
    """Which IPUs wait for each other when one of them talks to the host."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2


class MatMulSerializationMode(enum.Enum):
    """The dimension along which a serialized matrix product is cut."""

    InputChannels = "input_channels"
    ReducingDim = "reducing_dim"
    OutputChannels = "output_channels"
    Disabled = "none"


class Liveness(enum.IntEnum):
    """When the tensors of a phase leave the chip (phased execution)."""

    AlwaysLive = 0
    OffChipAfterFwd = 1
    OffChipAfterFwdNoOverlap = 2
    OffChipAfterEachPhase = 3


class OverlapMode(enum.Enum):
    """How far ahead an input or output crosses between host and IPU while the IPU computes."""

    NoOverlap = "no_overlap"
    OverlapAccumulationLoop = "overlap_accumulation_loop"
    OverlapDeviceIterationLoop = "overlap_device_iteration_loop"


class AutoStage(enum.IntEnum):
    """How blocks become stages when the execution strategy lists none."""

    SameAsIpu = 0
    """The stage is the number of the block's IPU."""
    AutoIncrement = 1
    """Every new block is the next stage."""


class MultiConvPlanType(enum.IntEnum):
    """How the convolutions of a MultiConv run."""

    Parallel = 0
    Serial = 1


class CommGroupType(enum.IntEnum):
    """How R replicas fall into groups of k."""

    All = 0
    """One group of all replicas."""
    Consecutive = 1
    """Replica r is in group r // k."""
    Orthogonal = 2
    """Replica r is in group r % (R / k)."""
    NoGrouping = 3
    """Every replica is a group."""


class VariableRetrievalMode(enum.IntEnum):
    """Which values of a per-replica tensor come back to the host. The value 1 is not used by PopTorch."""

    OnePerGroup = 0
    """That of the first replica of each group."""
    AllReplicas = 2
    """That of every replica."""
