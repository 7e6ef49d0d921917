"""Which buffers exist while each op of a stage runs.

The forward and the backward pass of a stage are two programs: in a pipeline they work on different micro-batches, and what the
backward pass needs of its own micro-batch waits in a stash. Where nothing waits between them (one stage, or the last), they are one
program, and what is kept lives from one to the other.
"""

from dataclasses import dataclass
from typing import Dict, Hashable, Iterator, List, Mapping, Sequence, Set, Tuple

from softipu.cost.stage_time import BACKWARD, FORWARD, RECOMPUTE
from softipu.cost.stages import StageOps
from softipu.cost.workload import Workload
from softipu.graph import Role

Instance = Hashable  # a buffer, or a buffer that is made again


@dataclass(frozen=True)
class Point:
    """Memory while one op runs.

    Attributes:
        number: of the op.
        direction: forward, backward or recompute.
        live: bytes of buffers that exist, those that always exist left out.
    """

    number: int
    direction: str
    live: float


@dataclass(frozen=True)
class Liveness:
    """All points of a stage, and what exists at the highest.

    Attributes:
        points: in the order that the ops run.
        peak: index of the highest point; -1 without ops.
        at_peak: bytes of every buffer that exists then.
        stash: bytes of what the stage keeps for one micro-batch, where it waits in a stash; empty where it does not.
    """

    points: Tuple[Point, ...]
    peak: int
    at_peak: Tuple[float, ...]
    stash: Tuple[float, ...]


@dataclass(frozen=True)
class _Access:
    number: int
    direction: str
    reads: Tuple[Instance, ...]
    writes: Tuple[Instance, ...]


def live_memory(
    workload: Workload, stage: StageOps, *, stashed: bool, temporary: Mapping[int, float], parts: Mapping[int, int]
) -> Liveness:
    """The liveness of a stage.

    Args:
        stashed: whether the backward pass works on an earlier micro-batch.
        temporary: temporary memory of ops, by number; adds to what makes a point the highest.
        parts: ops that run in parts, with how many; of a gradient of weights one part exists at a time.
    """
    return _Stage(workload, stage, stashed, temporary, parts).run()


def weight_gradients(workload: Workload) -> Set[int]:
    """Buffers that hold a gradient of weights, or a part that is added to one: each is accumulated as soon as it is there."""
    made = {b: op for op in workload.ops if op.origin.backward for b in op.writes}
    found: Set[int] = set()
    todo = [b for _, b in workload.gradients]
    while todo:
        b = todo.pop()
        if b in found:
            continue
        found.add(b)
        op = made.get(b)
        if op is not None and op.name in ("aten::add", "aten::add_", "aten::clone", "aten::_to_copy"):
            size = workload.buffers[b].bytes
            todo.extend(r for r in op.reads if r in made and workload.buffers[r].bytes >= size and workload.buffers[r].role is None)
    return found


class _Stage:
    def __init__(
        self, workload: Workload, stage: StageOps, stashed: bool, temporary: Mapping[int, float], parts: Mapping[int, int]
    ) -> None:
        self.workload, self.stage, self.stashed, self.temporary, self.parts = workload, stage, stashed, temporary, parts
        self.gradients = weight_gradients(workload)

    def run(self) -> Liveness:
        forward, backward = list(self._forward()), list(self._backward())
        programs = [forward, backward] if self.stashed else [forward + backward]
        points: List[Point] = []
        peak, highest, at_peak = -1, -1.0, ()  # type: int, float, Tuple[float, ...]
        for program in programs:
            offset = len(points)
            found, top, sizes = self._simulate(program, self.stage.sent if program and program[0].direction == FORWARD else ())
            points.extend(found)
            if top >= 0:
                height = found[top].live + self.temporary.get(found[top].number, 0.0)
                if height > highest:
                    peak, highest, at_peak = offset + top, height, sizes
        buffers = self.workload.buffers
        kept = dict.fromkeys(b for segment in self.stage.segments for b in segment.kept)
        return Liveness(tuple(points), peak, at_peak, tuple(buffers[b].bytes for b in kept) if self.stashed else ())

    def _forward(self) -> Iterator[_Access]:
        for segment in self.stage.segments:
            for i in segment.forward:
                op = self.workload.ops[i]
                yield _Access(i, FORWARD, op.reads, op.writes)

    def _backward(self) -> Iterator[_Access]:
        ops = self.workload.ops
        for number, segment in reversed(list(enumerate(self.stage.segments))):
            again = {b for i in segment.recomputed for b in ops[i].writes}
            drawn = {b: i for i in segment.redrawn for b in ops[i].writes}
            kept = set(segment.kept)

            def named(buffers: Sequence[int], again: Set[int] = again, kept: Set[int] = kept, number: int = number) -> Tuple[Instance, ...]:
                return tuple(("again", b, number) if b in again else ("kept", b) if self.stashed and b in kept else b for b in buffers)

            def with_drawn(buffers: Sequence[int], drawn: Dict[int, int] = drawn, number: int = number) -> Tuple[Instance, ...]:
                return tuple(("again", b, ~number) if b in drawn else name for b, name in zip(buffers, named(buffers)))

            for i in segment.recomputed:
                yield _Access(i, RECOMPUTE, named(ops[i].reads), named(ops[i].writes))
            waiting = set(segment.redrawn)
            for i in segment.backward:
                # As PopART's dropout, which keeps the seed: what is drawn exists only where it is used.
                for maker in dict.fromkeys(drawn[b] for b in ops[i].reads if b in drawn):
                    if maker in waiting:
                        waiting.remove(maker)
                        yield _Access(maker, RECOMPUTE, with_drawn(ops[maker].reads), with_drawn(ops[maker].writes))
                yield _Access(i, BACKWARD, with_drawn(ops[i].reads), with_drawn(ops[i].writes))

    def _simulate(self, program: List[_Access], until_end: Sequence[int]) -> Tuple[List[Point], int, Tuple[float, ...]]:
        """(points, index of the highest, sizes of what exists there)."""
        last: Dict[Instance, int] = {}
        for step, access in enumerate(program):
            for key in (*access.reads, *access.writes):
                last[key] = step
        for b in until_end:
            if b in last:
                last[b] = len(program)
        ending: Dict[int, List[Instance]] = {}
        for key, step in last.items():
            ending.setdefault(step, []).append(key)
        alive: Dict[Instance, float] = {}
        total, points, peak, highest = 0.0, [], -1, -1.0
        at_peak: Tuple[float, ...] = ()
        for step, access in enumerate(program):
            for key in (*access.reads, *access.writes):
                if key not in alive:
                    size = self._bytes(key, access.number)
                    if size:
                        alive[key] = size
                        total += size
            dying = [key for key in ending.get(step, ()) if key in alive]
            live = total - self._reused(access, dying, alive)
            points.append(Point(access.number, access.direction, live))
            height = live + self.temporary.get(access.number, 0.0)
            if height > highest:
                peak, highest, at_peak = step, height, tuple(alive.values())
            for key in dying:
                total -= alive.pop(key)
        return points, peak, at_peak

    def _bytes(self, key: Instance, number: int) -> float:
        """What a buffer takes when it comes to be; weights and state of the module always exist and count elsewhere."""
        b = key[-2] if isinstance(key, tuple) and key[0] == "again" else key[1] if isinstance(key, tuple) else key
        assert isinstance(b, int)
        buffer = self.workload.buffers[b]
        if buffer.role in (Role.PARAMETER, Role.BUFFER):
            return 0.0
        return buffer.bytes / self.parts.get(number, 1) if b in self.gradients else buffer.bytes

    def _reused(self, access: _Access, dying: Sequence[Instance], alive: Mapping[Instance, float]) -> float:
        """An op on each element writes over an argument that nobody reads later."""
        if self.workload.ops[access.number].work.family != "elementwise":
            return 0.0
        made = [alive[k] for k in access.writes if k in alive and k not in access.reads]
        free = [alive[k] for k in access.reads if k in dying]
        return min(max(made, default=0.0), max(free, default=0.0))
