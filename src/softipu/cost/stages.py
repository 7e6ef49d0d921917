"""Which op belongs to which stage and segment of a plan.

A stage is what one IPU does of the forward pass, and the backward pass of it. A segment is the part of a stage between two
checkpoints: with recomputation, only what enters a segment is kept, and the segment's forward ops run again before its backward ops.
"""

from dataclasses import dataclass
from typing import Dict, List, Set, Tuple

from softipu.cost.workload import Op, Workload
from softipu.errors import Error
from softipu.graph import Role
from softipu.report.plan import Plan, Stage


@dataclass(frozen=True)
class Segment:
    """Ops between two checkpoints.

    Attributes:
        forward: numbers of ops, in order.
        backward: numbers of ops, in order.
        recomputed: of the forward ops, those that run again; empty without recomputation.
        kept: buffers made before this segment in the forward pass that its backward pass or recomputation reads.
        redrawn: random ops whose numbers are drawn again in the backward pass instead of kept.
    """

    forward: Tuple[int, ...]
    backward: Tuple[int, ...]
    recomputed: Tuple[int, ...]
    redrawn: Tuple[int, ...]
    kept: Tuple[int, ...]


@dataclass(frozen=True)
class StageOps:
    """What a stage does.

    Attributes:
        number: position in the plan.
        stage: as planned.
        segments: in order of the forward pass.
        received: buffers that come from earlier stages on other IPUs.
        sent: buffers that later stages read in the forward pass.
        received_backward: buffers that come from the backward pass of later stages on other IPUs.
        from_host: buffers that the host sends to it.
        parameters: numbers of the weights that it reads.
        owned: those that no earlier stage reads, whose gradient and state live here.
    """

    number: int
    stage: Stage
    segments: Tuple[Segment, ...]
    received: Tuple[int, ...]
    sent: Tuple[int, ...]
    received_backward: Tuple[int, ...]
    from_host: Tuple[int, ...]
    parameters: Tuple[int, ...]
    owned: Tuple[int, ...]


def split(workload: Workload, plan: Plan) -> Tuple[StageOps, ...]:
    """The stages of ``plan`` with their ops.

    Raises:
        Error: a stage begins at a module that runs no op, or before the stage in front of it.
    """
    return _Split(workload, plan).stages()


class _Split:
    def __init__(self, workload: Workload, plan: Plan) -> None:
        self.workload, self.plan = workload, plan
        self.first_runs = self._first_runs()
        self.cuts = self._checkpoint_cuts()
        self.stage_of = [self._stage(op) for op in workload.ops]
        self.made_by: Dict[int, int] = {}  # buffer -> forward op that first writes it
        self.made_backward: Dict[int, int] = {}  # the same for what only the backward pass makes
        self.readers: Dict[int, List[int]] = {}
        for i, op in enumerate(workload.ops):
            for b in op.writes:
                if not op.origin.backward:
                    self.made_by.setdefault(b, i)
                elif b not in self.made_by:
                    self.made_backward.setdefault(b, i)
            for b in op.reads:
                self.readers.setdefault(b, []).append(i)

    def stages(self) -> Tuple[StageOps, ...]:
        members: List[List[int]] = [[] for _ in self.plan.stages]
        for i, number in enumerate(self.stage_of):
            members[number].append(i)
        taken: Set[int] = set()
        result = []
        for number, ops in enumerate(members):
            stage = self._describe(number, ops, taken)
            taken.update(stage.parameters)
            result.append(stage)
        return tuple(result)

    def _elsewhere(self, op: int, number: int) -> bool:
        """Whether an op belongs to a stage on another IPU than stage ``number``."""
        stages = self.plan.stages
        return stages[self.stage_of[op]].ipu != stages[number].ipu

    def _first_runs(self) -> Tuple[int, ...]:
        """The run at which each stage begins."""
        forward = [op.origin for op in self.workload.ops if not op.origin.backward]
        found = [0]
        for stage in self.plan.stages[1:]:
            run = next((origin.run for origin in forward if origin.inside(stage.begin)), None)
            if run is None:
                modules = sorted({".".join(o.module.split(".")[:3]) for o in forward})
                raise Error(
                    f"A stage begins at module {stage.begin!r}, which runs no op. Modules with ops begin with {', '.join(modules[:20])}."
                )
            if run < found[-1]:
                raise Error(
                    f"The stage that begins at {stage.begin!r} comes after one that begins later in the forward pass; order the stages."
                )
            found.append(run)
        return tuple(found)

    def _checkpoint_cuts(self) -> Tuple[int, ...]:
        """Runs after which a segment ends: the last of each checkpointed module."""
        last: Dict[str, int] = {}
        wanted = set(self.plan.checkpoints)
        for op in self.workload.ops:
            if op.origin.backward:
                continue
            parts = op.origin.module.split(".")
            for n in range(len(parts), 0, -1):
                path = ".".join(parts[:n])
                if path in wanted:
                    last[path] = op.origin.run
        missing = wanted - set(last)
        if missing:
            raise Error(f"Checkpoints {', '.join(sorted(missing))} name modules that run no op.")
        return tuple(sorted(set(last.values())))

    def _stage(self, op: Op) -> int:
        number = 0
        for i, first in enumerate(self.first_runs):
            if op.origin.run >= first:
                number = i
        return number

    def _segment(self, op: Op) -> int:
        return sum(op.origin.run > cut for cut in self.cuts)

    def _describe(self, number: int, ops: List[int], taken: Set[int]) -> StageOps:
        workload, made_by = self.workload, self.made_by
        forward = [i for i in ops if not workload.ops[i].origin.backward]
        backward = [i for i in ops if workload.ops[i].origin.backward]
        read = dict.fromkeys(b for i in ops for b in workload.ops[i].reads)
        forward_read = dict.fromkeys(b for i in forward for b in workload.ops[i].reads)
        numbers = {p.buffer: n for n, p in enumerate(workload.parameters)}
        parameters = tuple(numbers[b] for b in read if b in numbers)
        received = tuple(b for b in forward_read if b in made_by and self._elsewhere(made_by[b], number))
        mine = dict.fromkeys(b for i in forward for b in workload.ops[i].writes if self.stage_of[made_by[b]] == number)
        sent = tuple(
            b for b in mine if any(self.stage_of[r] > number and not workload.ops[r].origin.backward for r in self.readers.get(b, ()))
        )
        backward_read = dict.fromkeys(b for i in backward for b in workload.ops[i].reads)
        made_backward = self.made_backward
        received_backward = tuple(b for b in backward_read if b in made_backward and self._elsewhere(made_backward[b], number))
        from_host = tuple(b for b in read if workload.buffers[b].role is Role.INPUT)
        return StageOps(
            number, self.plan.stages[number], self._segments(number, forward, backward), received, sent, received_backward, from_host,
            parameters, tuple(n for n in parameters if n not in taken),
        )  # fmt: skip

    def _segments(self, number: int, forward: List[int], backward: List[int]) -> Tuple[Segment, ...]:
        ops = self.workload.ops
        by_segment: Dict[int, Tuple[List[int], List[int]]] = {}
        for i in forward:
            by_segment.setdefault(self._segment(ops[i]), ([], []))[0].append(i)
        for i in backward:
            by_segment.setdefault(self._segment(ops[i]), ([], []))[1].append(i)
        recompute = self.plan.stages[number].recompute and self.workload.training
        last_stage = number == len(self.plan.stages) - 1
        order = sorted(by_segment)
        result = []
        for position, key in enumerate(order):
            first, second = by_segment[key]
            # What comes after the last checkpoint runs backward at once, so nothing is gained by running it forward again.
            again = recompute and not (last_stage and position == len(order) - 1)
            result.append(self._one_segment(first, second, recompute=again))
        return tuple(result)

    def _one_segment(self, forward: List[int], backward: List[int], *, recompute: bool) -> Segment:
        ops, buffers = self.workload.ops, self.workload.buffers
        inside = {b for i in forward for b in ops[i].writes}
        needed = {b for i in backward for b in ops[i].reads}
        recomputed: List[int] = []
        redrawn = [i for i in forward if ops[i].work.family == "random" and any(b in needed and buffers[b].redrawn for b in ops[i].writes)]
        if recompute:
            needed -= {b for i in redrawn for b in ops[i].writes}
            for i in reversed(forward):
                if needed & set(ops[i].writes):
                    recomputed.append(i)
                    needed |= set(ops[i].reads)
        own = inside if recompute else {b for i in redrawn for b in ops[i].writes}
        kept = tuple(sorted(b for b in needed if b not in own and (b in self.made_by or buffers[b].role is Role.INPUT)))
        return Segment(tuple(forward), tuple(backward), tuple(reversed(recomputed)), tuple(redrawn), kept)
