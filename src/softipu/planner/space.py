"""What a search may choose from."""

from dataclasses import dataclass
from typing import Optional, Tuple

from softipu.errors import Error
from softipu.hardware import System
from softipu.report.plan import Plan, Schedule

# Loss of throughput, over endless accumulation, that accumulation is raised to stay below where no batch size is asked for.
ENDLESS_LOSS_FRACTION = 0.05
MOST_ACCUMULATION = 4096


@dataclass(frozen=True)
class Space:
    """The choices of a search; None leaves them to it.

    Attributes:
        micro_batches: items; None: powers of two, as long as any plan with them fits.
        ipus_per_replica: None: every power of two that the system has.
        n_ipus: of all replicas at most; None: all of the system.
        items_per_update: micro-batch x accumulation x replicas, exactly; None: so many that ramps and weight update take at most 5 % of
            the time, but no more than ``most_items_per_update``.
        most_items_per_update: see there. The default is the largest batch that published runs train with.
        optimizer_state_off_chip: whether the optimizer's state may live in streaming memory.
        replicated_tensor_sharding: whether replicas may each hold a part of it.
        memory_proportions: bounds of the temporary memory of ops to try besides that of the plan, as fractions of a tile's memory.
        most_micro_batch: where powers of two end.
    """

    micro_batches: Optional[Tuple[int, ...]] = None
    ipus_per_replica: Optional[Tuple[int, ...]] = None
    n_ipus: Optional[int] = None
    items_per_update: Optional[int] = None
    most_items_per_update: int = 65_536
    optimizer_state_off_chip: bool = True
    replicated_tensor_sharding: bool = False
    memory_proportions: Tuple[float, ...] = (0.2, 0.1)
    most_micro_batch: int = 64

    def sizes(self, system: System) -> Tuple[int, ...]:
        """IPUs of a replica to try.

        Raises:
            Error: more IPUs than the system has.
        """
        limit = self.limit(system)
        if self.ipus_per_replica is None:
            return powers_of_two(limit)
        wrong = [n for n in self.ipus_per_replica if not 1 <= n <= limit]
        if wrong:
            raise Error(f"A replica cannot have {wrong[0]} IPUs on {system.name}: 1 to {limit} are allowed.")
        return tuple(sorted(set(self.ipus_per_replica)))

    def limit(self, system: System) -> int:
        """IPUs of all replicas.

        Raises:
            Error: more IPUs than the system has.
        """
        if self.n_ipus is not None and not 1 <= self.n_ipus <= system.n_ipus:
            raise Error(f"A plan cannot have {self.n_ipus} IPUs on {system.name}: it has {system.n_ipus}.")
        return self.n_ipus or system.n_ipus

    def batches(self) -> Tuple[int, ...]:
        """Micro-batches to try, smallest first."""
        return tuple(sorted(set(self.micro_batches))) if self.micro_batches is not None else powers_of_two(self.most_micro_batch)


def powers_of_two(limit: int) -> Tuple[int, ...]:
    """1, 2, 4 ... up to ``limit``."""
    return tuple(1 << i for i in range(limit.bit_length()))


def least_accumulation(plan: Plan, *, training: bool) -> int:
    """Micro-batches that a pipeline needs to be full once: 2 S - 1, or S in inference."""
    n_stages = len(plan.stages)
    return 1 if plan.schedule is Schedule.SHARDED else 2 * n_stages - 1 if training else n_stages


def accumulation_for(plan: Plan, cycle_seconds: float, other_seconds: float, *, most_items: int, training: bool) -> int:
    """Micro-batches a weight update, a power of two, such that ``other_seconds`` of a step are at most 5 % of its time.

    Fewer where they would be more than ``most_items``, but as many as fill the pipeline.
    """
    least = least_accumulation(plan, training=training)
    wanted = other_seconds * (1 / ENDLESS_LOSS_FRACTION - 1) / cycle_seconds if cycle_seconds else 1.0
    found = 1
    most = min(MOST_ACCUMULATION, most_items // (plan.micro_batch * plan.replicas))
    while found < least or (found < wanted and 2 * found <= most):
        found *= 2
    return found
