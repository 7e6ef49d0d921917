"""From blocks and an execution strategy to stages and IPUs, with PopTorch's rules for pipelines."""

from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from softipu.errors import Error
from softipu.poptorch.blocks.scope import BlockId
from softipu.poptorch.blocks.strategies import (
    ExecutionStrategy,
    ParallelPhasedExecution,
    PipelinedExecution,
    ShardedExecution,
    _PhasedExecution,
)
from softipu.poptorch.enums import AutoStage

MAX_IPUS_PER_PROCESS = 64


@dataclass(frozen=True)
class Place:
    """Where the operations of a block run.

    Attributes:
        stage: pipeline stage, as PopTorch numbers it (numbers may be left out).
        ipu: IPU within the replica.
        phase: execution phase; -1 unless the strategy has phases.
    """

    stage: int
    ipu: int
    phase: int = -1


@dataclass(frozen=True)
class Placement:
    """The blocks of a model on the IPUs of one replica.

    Attributes:
        places: place of every block that was met; None stands for what comes before the first block.
        n_stages: stages of the pipeline, where neighbours on one IPU count once.
        n_ipus: IPUs of one replica, up to the highest number in use.
        is_pipelined: whether stages work on different micro-batches at the same time.
    """

    places: Dict[Optional[BlockId], Place]
    n_stages: int
    n_ipus: int
    is_pipelined: bool

    def place(self, block: Optional[BlockId]) -> Place:
        """Where the operations of a block run."""
        return self.places[block]


def place_blocks(blocks: Sequence[Optional[BlockId]], strategy: ExecutionStrategy) -> Placement:
    """The placement of blocks given in the order that they run.

    Args:
        blocks: the block of every operation (or every begin of a block); None for operations before the first one.

    Raises:
        AssertionError: a block that an explicit strategy does not know; AutoStage.SameAsIpu and a block without IPU before any with one.
        Error: an operation outside a block after one has ended, or blocks of one pipeline stage on several IPUs.
    """
    if not any(blocks):
        return Placement({None: Place(0, 0)}, 1, 1, False)
    places: Dict[Optional[BlockId], Place] = {}
    assign = _Assignment(strategy)
    previous: Optional[BlockId] = None
    for block in blocks:
        if block is None:
            if previous is not None:
                raise Error(
                    f"No active Block, all the ops must belong to a Block: an operation runs after block '{previous.user_id}' has ended. "
                    "Move it into a block, or begin the blocks with poptorch.Block.start or poptorch.BeginBlock, "
                    "which last until the next one."
                )
            places[None] = Place(0, 0, 0 if isinstance(strategy, _PhasedExecution) else -1)
        elif block not in places:
            places[block] = assign(block)
        previous = block
    pipelined = isinstance(strategy, PipelinedExecution) and not isinstance(strategy, ShardedExecution)
    if pipelined:
        _check_one_ipu_per_stage(places)
    by_stage = [place.ipu for place in sorted(places.values(), key=lambda place: (place.phase, place.stage))]
    n_stages = 1 + sum(before != after for before, after in zip(by_stage, by_stage[1:]))
    return Placement(places, n_stages, 1 + max(by_stage), pipelined and n_stages > 1)


class _Assignment:
    """Gives blocks their places, one after another."""

    def __init__(self, strategy: ExecutionStrategy) -> None:
        self._strategy = strategy
        self._stages: Dict[str, int] = {}
        self._last_ipu: Optional[int] = None

    def __call__(self, block: BlockId) -> Place:
        if block.ipu_id is not None:
            self._last_ipu = block.ipu_id
        if isinstance(self._strategy, PipelinedExecution) and not self._strategy._block_map:
            if block.user_id not in self._stages:
                self._stages[block.user_id] = self._automatic_stage(block, self._strategy._auto_stage)
            stage = self._stages[block.user_id]
            return Place(stage, block.ipu_id if block.ipu_id is not None else stage)
        known = self._strategy._block_map
        assert block.user_id in known, f"Unknown Block '{block.user_id}' list of expected Blocks: {list(known)}"
        declared = known[block.user_id]
        ipu = declared._ipu if declared._ipu is not None else block.ipu_id
        if isinstance(self._strategy, _PhasedExecution):
            index = list(self._strategy.phase(declared._phase_id).stages).index(declared)
            if ipu is None:
                alternating = isinstance(self._strategy, ParallelPhasedExecution)
                ipu = 2 * index + declared._phase_id % 2 if alternating else index
            return Place(index, ipu, declared._phase_id)
        return Place(declared._stage_id, ipu if ipu is not None else declared._stage_id)

    def _automatic_stage(self, block: BlockId, rule: AutoStage) -> int:
        if rule == AutoStage.AutoIncrement:
            return 1 + len(self._stages)  # 0 is what comes before the first block
        assert self._last_ipu is not None, (
            f"poptorch.AutoStage.SameAsIpu was selected but no IPU was specified for block {block.user_id}. "
            "Give the block an ipu_id, list the stages in the execution strategy, or use AutoStage.AutoIncrement."
        )
        return self._last_ipu


def _check_one_ipu_per_stage(places: Dict[Optional[BlockId], Place]) -> None:
    by_stage: Dict[int, List[Tuple[Optional[BlockId], Place]]] = {}
    for block, place in places.items():
        if block is not None:
            by_stage.setdefault(place.stage, []).append((block, place))
    for stage, members in by_stage.items():
        if len({place.ipu for _, place in members}) > 1:
            listed = ", ".join(f"'{block.user_id}' on IPU {place.ipu}" for block, place in members if block is not None)
            raise Error(f"The blocks of a pipeline stage must be on one IPU, but stage {stage} has {listed}. Change ipu_id or the stages.")


def check_stages_run_forward(placement: Placement, uses: Iterable[Tuple[BlockId, BlockId]]) -> None:
    """In a pipeline, results go to the same stage or to a later one.

    Args:
        placement: of the blocks.
        uses: pairs of blocks; the second uses a result of the first.

    Raises:
        Error: a block of an earlier stage uses a result of a later stage.
    """
    if not placement.is_pipelined:
        return
    for source, user in uses:
        before, after = placement.place(source), placement.place(user)
        if after.stage < before.stage:
            raise Error(
                f"In a pipeline results go forward only, but block '{user.user_id}' (stage {after.stage}, IPU {after.ipu}) uses a result "
                f"of block '{source.user_id}' (stage {before.stage}, IPU {before.ipu}). Give block '{user.user_id}' a later stage: "
                "poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement) counts a new stage for each block, or list the stages; "
                "poptorch.ShardedExecution has no such rule."
            )


def check_pipeline_is_filled(placement: Placement, *, training: bool, gradient_accumulation: int, device_iterations: int) -> None:
    """A pipeline of S stages needs 2*S - 1 micro-batches of a weight update to train, and S device iterations for inference.

    Raises:
        Error: fewer.
    """
    if not placement.is_pipelined:
        return
    n_stages = placement.n_stages
    if training and gradient_accumulation < 2 * n_stages - 1:
        raise Error(
            "poptorch.Options().Training.gradientAccumulation must be greater than or equal to the number of pipeline stages "
            f"({2 * n_stages - 1}) when using poptorch.PipelinedExecution. Please note that a model with {n_stages} pipeline stages in "
            f"PopTorch will have an additional {n_stages - 1} stages when training. Given {gradient_accumulation}."
        )
    if not training and device_iterations < n_stages:
        raise Error(
            f"poptorch.Options().deviceIterations must be greater than or equal to the number of pipeline stages ({n_stages}) when using "
            f"poptorch.PipelinedExecution. Given {device_iterations}."
        )


def check_number_of_ipus(placement: Placement, replication_factor: int) -> int:
    """IPUs of all replicas.

    Raises:
        Error: more than 64.
    """
    n_ipus = placement.n_ipus * replication_factor
    if n_ipus > MAX_IPUS_PER_PROCESS:
        raise Error(
            f"Too many IPUs requested ({n_ipus}). Experiments that need more than {MAX_IPUS_PER_PROCESS} IPUs require distributed "
            f"execution. Given {placement.n_ipus} IPUs for each of {replication_factor} replicas."
        )
    return n_ipus
