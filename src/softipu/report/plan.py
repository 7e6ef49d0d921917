"""How a step is laid out on IPUs: what a planner chooses and a cost model prices."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Callable, Dict, Tuple

from softipu.errors import Error

PLAN_SCHEMA = 1


class Schedule(Enum):
    """How the stages of a replica take turns."""

    PIPELINED = "pipelined"  # every IPU works on a micro-batch of its own
    SHARDED = "sharded"  # one IPU at a time


class Partials(Enum):
    """Type of the partial sums of matmuls and convolutions whose inputs are half precision."""

    HALF = "half"
    FLOAT = "float"


@dataclass(frozen=True)
class Stage:
    """A consecutive part of the forward pass, with the backward pass of the same ops.

    Attributes:
        begin: path of the module at whose first op the stage begins, as a BeginBlock there would; empty for the first stage.
        ipu: IPU within the replica, counted from 0. Several stages may share one.
        recompute: whether activations between checkpoints are computed again in the backward pass instead of kept.
    """

    begin: str
    ipu: int
    recompute: bool = False


@dataclass(frozen=True)
class Plan:
    """The layout of one training or inference run.

    Attributes:
        stages: in the order of the forward pass; the first begins at "".
        micro_batch: items in one micro-batch; the step must have been captured with as many.
        gradient_accumulation: micro-batches of a replica per weight update; 1 for inference.
        replicas: copies of the pipeline.
        device_iterations: weight updates (inference: micro-batches) per call of the host.
        checkpoints: modules whose outputs are kept where a stage recomputes; paths.
        available_memory_proportion: bound of an op's temporary memory as a fraction of a tile's memory: one for all IPUs or one
            per IPU.
        partials: type of partial sums.
        optimizer_state_off_chip: optimizer state lives in streaming memory.
        replicated_tensor_sharding: every replica holds 1/replicas of the optimizer state.
        serialized: (module path, n): matmuls of the module run in n parts, one after the other.
        n_io_tiles: tiles set aside to overlap host I/O with compute; 0: no overlap.
        schedule: pipelined or one IPU at a time.
    """

    stages: Tuple[Stage, ...] = (Stage("", 0),)
    micro_batch: int = 1
    gradient_accumulation: int = 1
    replicas: int = 1
    device_iterations: int = 1
    checkpoints: Tuple[str, ...] = ()
    available_memory_proportion: Tuple[float, ...] = (0.6,)
    partials: Partials = Partials.FLOAT
    optimizer_state_off_chip: bool = False
    replicated_tensor_sharding: bool = False
    serialized: Tuple[Tuple[str, int], ...] = ()
    n_io_tiles: int = 0
    schedule: Schedule = Schedule.PIPELINED

    def __post_init__(self) -> None:
        _check(self)

    @property
    def n_ipus_per_replica(self) -> int:
        return 1 + max(stage.ipu for stage in self.stages)

    @property
    def n_ipus(self) -> int:
        return self.n_ipus_per_replica * self.replicas

    @property
    def items_per_update(self) -> int:
        """Items of all replicas between two weight updates."""
        return self.micro_batch * self.gradient_accumulation * self.replicas

    def memory_proportion(self, ipu: int) -> float:
        """``available_memory_proportion`` of one IPU."""
        return self.available_memory_proportion[ipu if len(self.available_memory_proportion) > 1 else 0]

    def as_dict(self) -> Dict[str, Any]:
        """JSON-able form; ``from_dict`` reads it."""
        return {
            "schema": PLAN_SCHEMA,
            "stages": [{"begin": s.begin, "ipu": s.ipu, "recompute": s.recompute} for s in self.stages],
            "micro_batch": self.micro_batch,
            "gradient_accumulation": self.gradient_accumulation,
            "replicas": self.replicas,
            "device_iterations": self.device_iterations,
            "checkpoints": list(self.checkpoints),
            "available_memory_proportion": list(self.available_memory_proportion),
            "partials": self.partials.value,
            "optimizer_state_off_chip": self.optimizer_state_off_chip,
            "replicated_tensor_sharding": self.replicated_tensor_sharding,
            "serialized": [[path, n] for path, n in self.serialized],
            "n_io_tiles": self.n_io_tiles,
            "schedule": self.schedule.value,
        }

    @staticmethod
    def from_dict(data: Dict[str, Any]) -> "Plan":
        """The plan that ``as_dict`` wrote.

        Raises:
            Error: another schema, an unknown key or a value that a plan cannot have.
        """
        given = dict(data)
        schema = given.pop("schema", None)
        if schema != PLAN_SCHEMA:
            raise Error(f"A plan has schema {schema!r}; this version reads schema {PLAN_SCHEMA}. Plan again with this version.")
        unknown = sorted(set(given) - set(Plan.__dataclass_fields__))
        if unknown:
            raise Error(f"A plan has the unknown keys {', '.join(unknown)}. Allowed are {', '.join(Plan.__dataclass_fields__)}.")
        convert: Dict[str, Callable[[Any], Any]] = {
            "stages": lambda v: tuple(Stage(s["begin"], s["ipu"], s.get("recompute", False)) for s in v),
            "checkpoints": tuple,
            "available_memory_proportion": tuple,
            "partials": Partials,
            "serialized": lambda v: tuple((path, n) for path, n in v),
            "schedule": Schedule,
        }
        return Plan(**{key: convert[key](value) if key in convert else value for key, value in given.items()})


def _check(plan: Plan) -> None:
    for name in ("micro_batch", "gradient_accumulation", "replicas", "device_iterations"):
        if getattr(plan, name) < 1:
            raise Error(f"A plan has {name}={getattr(plan, name)}; it must be at least 1.")
    if not plan.stages or plan.stages[0].begin != "":
        given = repr(plan.stages[0].begin) if plan.stages else "no stage"
        raise Error(f"The first stage of a plan must begin at '' (the first op); given {given}. Name the modules of later stages only.")
    used = sorted({stage.ipu for stage in plan.stages})
    if used != list(range(len(used))):
        raise Error(f"The stages of a plan use the IPUs {used}; they must be 0 to {len(used) - 1} without a gap.")
    begins = [stage.begin for stage in plan.stages]
    repeated = sorted({b for b in begins if begins.count(b) > 1})
    if repeated:
        raise Error(f"Several stages of a plan begin at {', '.join(map(repr, repeated))}. Let each begin at another module.")
    proportions = plan.available_memory_proportion
    if len(proportions) not in (1, len(used)) or not all(0 < p <= 1 for p in proportions):
        raise Error(
            f"available_memory_proportion is {list(proportions)}; give one value, or one for each of the {len(used)} IPUs, "
            "above 0 and at most 1."
        )
