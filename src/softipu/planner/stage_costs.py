"""What a stage of any units costs, in constant time: sums over units made once, for the dynamic programme to ask.

Times are those of the cost model, op by op, and so is memory where it is a sum: weights, optimizer state, accumulators, stashed
activations, code, exchange buffers. The peak of live memory is taken per unit as if the model were one stage, and how unevenly buffers lie
on tiles is not known before they are dealt. So the planner prices what it finds, and asks again with a ``factor`` that it learnt.
"""

from dataclasses import dataclass, replace
from typing import Dict, Hashable, List, Optional, Sequence, Set, Tuple

from softipu.capture.update import OptimizerSpec
from softipu.cost.links import pipeline_seconds
from softipu.cost.op_cost import OpCost, Tiling, op_cost
from softipu.cost.pipeline import stash_depth
from softipu.cost.program_size import FAMILY_BYTES, UPDATE_BYTES, programs_of, update_program, work_bytes
from softipu.cost.stage_time import tiling_of
from softipu.cost.update_work import accumulator_bytes, state_bytes
from softipu.cost.workload import Workload
from softipu.graph import Role
from softipu.hardware import Calibration, System
from softipu.hardware.calibration import ASSUMED
from softipu.ops import VectorOp, Work
from softipu.planner.split import Bounds
from softipu.planner.tables import Largest, Running, StageSums
from softipu.planner.units import Units
from softipu.report.plan import Plan


@dataclass(frozen=True)
class Setting:
    """What holds for all stages of a plan.

    Attributes:
        state_share: of the optimizer state, what lies on the IPU.
        accumulates: whether there are several micro-batches to a weight update.
        pipelined: whether stages work on several micro-batches at a time.
        factors: by IPU, use of the fullest tile by the cost model over the sums here; empty where nothing is known.
    """

    state_share: float = 1.0
    accumulates: bool = True
    pipelined: bool = True
    factors: Tuple[float, ...] = ()

    def factor(self, ipu: int) -> float:
        """Of one IPU."""
        return self.factors[ipu] if self.factors else 1.0


@dataclass(frozen=True)
class Need:
    """What a stage needs.

    Attributes:
        seconds: of a micro-batch.
        held: bytes that it always needs.
        peak: bytes that it needs at its highest moment besides.
        recompute: whether it computes activations again.
        checkpoints: whether it then keeps what its layers return, and computes one layer at a time again.
    """

    seconds: float
    held: float
    peak: float
    recompute: bool
    checkpoints: bool = True


class StageCosts:
    """Costs of stages of one workload.

    Args:
        workload: of one micro-batch.
        units: what stages are made of.
        spec: the optimizer; None for inference.
        plan: what holds for every stage: partial sums, temporary memory, I/O tiles.
        system, calibration: of the machine.
    """

    def __init__(
        self, workload: Workload, units: Units, spec: Optional[OptimizerSpec], plan: Plan, system: System, calibration: Calibration
    ) -> None:
        self.workload, self.units, self.system = workload, units, system
        self._n = len(units)
        self._one_program: Dict[Tuple[int, int], float] = {}
        self._available = float(system.ipu.sram_bytes)
        self._unit_of = [units.of_run(op.origin.run) for op in workload.ops]
        self._readers()
        self._times(tiling_of(plan, 0, system.ipu), calibration)
        self._weights(spec)
        self._activations()
        self._program(system, spec)

    # What a stage takes

    def seconds(self, begin: int, end: int, *, recompute: bool) -> float:
        """Of a micro-batch, on the IPU alone."""
        found = self._work.of(begin, end)
        return found + self._again.of(begin, end) if recompute else found

    def link_seconds(self, begin: int, end: int, n_ipus: int) -> float:
        """Receiving from the stages before, and in training from those after."""
        if n_ipus == 1:
            return 0.0
        total = pipeline_seconds(self.system, self._received.of(begin, end), n_ipus).total
        if self.workload.training:
            total += pipeline_seconds(self.system, self._returned.of(begin, end), n_ipus).total
        return total

    def state(self, begin: int, end: int, *, state_share: float, accumulates: bool) -> float:
        """Bytes of weights, optimizer state, accumulators, and of the program: what is the same for every depth of a pipeline."""
        found = (
            self._besides + self._code.of(begin, end) + self._weight_bytes.of(begin, end) + state_share * self._state_bytes.of(begin, end)
        )
        return found + self._accumulator_bytes.of(begin, end) if accumulates else found

    def activations(self, begin: int, end: int, depth: int, *, recompute: bool, checkpoints: bool) -> Tuple[float, float]:
        """Bytes that wait for the backward pass, and the most that is live at a time besides."""
        forward = self._forward_peak.of(begin, end)
        if not self.workload.training:
            return 0.0, forward
        if not recompute:
            kept = self._own.of(begin, end) + self._kept.of(begin, end)
            if depth == 1:  # one program: what is kept is live from one pass to the other
                return kept, max(self._own_forward_peak.of(begin, end), self._own_backward_peak.of(begin, end))
            return depth * kept, max(forward, self._backward_peak.of(begin, end))
        if checkpoints:
            return depth * self._segment_inputs(begin, end), max(forward, self._again_peak.of(begin, end))
        again = self._own.of(begin, end) + self._own_backward_peak.of(begin, end)
        return depth * self._inputs.of(begin, end), max(forward, again)

    def needs(self, begin: int, end: int, stage: int, n_stages: int, setting: "Setting") -> List["Need"]:
        """Without and, in training, with recomputation: of one layer at a time, and of the whole stage at once."""
        fixed = self.state(begin, end, state_share=setting.state_share, accumulates=setting.accumulates)
        if n_stages > 1:
            fixed += self._received.of(begin, end) + self._returned.of(begin, end)
        links = self.link_seconds(begin, end, n_stages)
        depth = stash_depth(stage, n_stages) if setting.pipelined else 1
        ways = [(False, True)]
        if self.workload.training:
            ways += [(True, True)] if self.units.layers else []
            ways += [(True, False)] if n_stages > 1 else []
        found = []
        for recompute, checkpoints in ways:
            held, peak = self.activations(begin, end, depth, recompute=recompute, checkpoints=checkpoints)
            seconds = self.seconds(begin, end, recompute=recompute) + links
            found.append(Need(seconds, fixed + held, peak, recompute, checkpoints))
        return found

    def tile_fraction(self, held: float, peak: float, ipu: int, setting: "Setting") -> float:
        """Use of the fullest tile of an IPU with so many bytes."""
        return setting.factor(ipu) * (held + peak) / self._available

    def without_recomputation(self, begin: int, end: int, n_stages: int, setting: "Setting") -> "Need":
        """Of the last stage, whose passes follow each other at once: its live memory op by op, which takes time for each range asked."""
        if (begin, end) not in self._one_program:
            numbers = [i for i, unit in enumerate(self._unit_of) if begin <= unit < end]
            self._one_program[begin, end] = max(self._sweep(numbers, set()), default=0.0)
        found = self.needs(begin, end, n_stages - 1, n_stages, setting)[0]
        held, _ = self.activations(begin, end, 1, recompute=False, checkpoints=True)
        return replace(found, held=found.held - held, peak=self._one_program[begin, end])

    def common(self, begin: int, end: int, tail: int) -> float:
        """Bytes that two stages on one IPU, of units ``begin`` to ``end`` and from ``tail`` on, need once and not twice."""
        both = sum(
            size
            for readers, size in zip(self.shared, self._shared_bytes)
            if any(begin <= unit < end for unit in readers) and readers[-1] >= tail
        )
        # The gradient of shared weights stays on the IPU.
        both += sum(size for maker, reader, size in self._far_back if maker >= tail and begin <= reader < end)
        return self._besides + both

    def bounds(self, setting: "Setting") -> Bounds:
        """What a stage takes at least."""
        least = min(setting.factors, default=1.0)

        def tile_fraction(begin: int, end: int) -> float:
            fixed = self.state(begin, end, state_share=setting.state_share, accumulates=setting.accumulates)
            return least * (fixed + self._least_peak.of(begin, end)) / self._available

        return Bounds(self._work.of, tile_fraction)

    # Sums made once

    def _readers(self) -> None:
        """Per buffer: the unit that makes it in the forward pass, and the units that read it, by direction."""
        self._made: Dict[int, int] = {}
        self._made_backward: Dict[int, int] = {}
        self._read: Dict[int, Set[int]] = {}
        self._read_backward: Dict[int, Set[int]] = {}
        for op, unit in zip(self.workload.ops, self._unit_of):
            reads = self._read_backward if op.origin.backward else self._read
            for b in op.reads:
                reads.setdefault(b, set()).add(unit)
            for b in op.writes:
                if not op.origin.backward:
                    self._made.setdefault(b, unit)
                elif b not in self._made:
                    self._made_backward.setdefault(b, unit)

    def _times(self, tiling: Tiling, calibration: Calibration) -> None:
        workload, n = self.workload, self._n
        costs: List[OpCost] = [op_cost(op.work, tiling, calibration) for op in workload.ops]
        cycle = 1.0 / tiling.ipu.clock_hz
        work, again = [0.0] * n, [0.0] * n
        for unit, cost in zip(self._unit_of, costs):
            work[unit] += cost.cycles * cycle
        for unit, added in self._accumulations():
            work[unit] += op_cost(added, tiling, calibration).cycles * cycle
        for index in self._recomputed():
            again[self._unit_of[index]] += costs[index].cycles * cycle
        self._work, self._again = Running(work), Running(again)
        self._temporary = [cost.temporary_bytes for cost in costs]

    def _accumulations(self) -> List[Tuple[int, Work]]:
        """The addition of every gradient to its accumulator, in the unit that owns the weights."""
        trained = {name for name, _ in self.workload.gradients}
        found = []
        for parameter in self.workload.parameters:
            readers = self._read.get(parameter.buffer, set()) | self._read_backward.get(parameter.buffer, set())
            if readers and parameter.name in trained:
                bits = 16 if parameter.element_bytes == 2 else 32
                added = ((VectorOp.ADD, float(parameter.elements)),)
                found.append((min(readers), Work("accumulation", (), added, bits, n_supersteps=1)))
        return found

    def _recomputed(self) -> List[int]:
        """Forward ops that run again when every stage recomputes: those that lead to what the backward pass reads, and what it draws."""
        segment_of, buffers = self._segment_numbers(), self.workload.buffers
        needed: Dict[int, Set[int]] = {}
        for op, unit in zip(self.workload.ops, self._unit_of):
            if op.origin.backward:
                needed.setdefault(segment_of[unit], set()).update(b for b in op.reads if not buffers[b].redrawn)
        found = []
        for index in range(len(self.workload.ops) - 1, -1, -1):
            op = self.workload.ops[index]
            if not op.origin.backward:
                wanted = needed.get(segment_of[self._unit_of[index]], set())
                if wanted.intersection(op.writes):
                    found.append(index)
                    wanted.update(op.reads)
        return found

    def _segment_numbers(self) -> List[int]:
        """The segment of recomputation that each unit is in."""
        ends = set(self.units.layer_ends)
        numbers, number = [], 0
        for unit in range(self._n):
            numbers.append(number)
            number += unit in ends
        return numbers

    def _weights(self, spec: Optional[OptimizerSpec]) -> None:
        workload, n = self.workload, self._n
        trained = {name for name, _ in workload.gradients}
        self._weight_bytes = StageSums(n)
        state, accumulators = [0.0] * n, [0.0] * n
        self.shared: List[Tuple[int, ...]] = []
        self._shared_bytes: List[float] = []
        for parameter in workload.parameters:
            readers = sorted(self._read.get(parameter.buffer, set()) | self._read_backward.get(parameter.buffer, set()))
            if not readers:
                continue
            self._weight_bytes.add_read_from_outside(float(parameter.elements * parameter.element_bytes), -1, readers)
            if len(readers) > 1:
                self.shared.append(tuple(readers))
                self._shared_bytes.append(float(parameter.elements * parameter.element_bytes))
            if spec is not None and parameter.name in trained:
                state[readers[0]] += state_bytes(spec, parameter)
                accumulators[readers[0]] += accumulator_bytes(spec, parameter)
        self._state_bytes, self._accumulator_bytes = Running(state), Running(accumulators)

    def _program(self, system: System, spec: Optional[OptimizerSpec]) -> None:
        """Code, as its size is the sum over different programs, and what is the same on every IPU."""
        ipu, workload = system.ipu, self.workload
        self._besides = (ASSUMED.gap_fraction * ipu.sram_bytes_per_tile + ipu.stack_bytes_per_tile) * ipu.n_tiles
        sizes: Dict[Hashable, float] = {}
        units: Dict[Hashable, Set[int]] = {}

        def add(program: Hashable, size: float, unit: int) -> None:
            sizes[program] = size
            units.setdefault(program, set()).add(unit)

        for op, unit, program in zip(workload.ops, self._unit_of, programs_of(workload, range(len(workload.ops)))):
            add(program, work_bytes(op.work), unit)
            add(op.work.family, FAMILY_BYTES, unit)
        if spec is not None:
            trained = {name for name, _ in workload.gradients}
            for parameter in workload.parameters:
                readers = self._read.get(parameter.buffer, set()) | self._read_backward.get(parameter.buffer, set())
                if readers and parameter.name in trained:
                    add(update_program(parameter), UPDATE_BYTES, min(readers))
        self._code = StageSums(self._n)
        for key, size in sizes.items():
            self._code.add_read_from_outside(size * ipu.n_tiles, -1, sorted(units[key]))

    def _activations(self) -> None:
        workload, n = self.workload, self._n
        self._received, self._returned = StageSums(n), StageSums(n)
        self._own, self._kept, self._inputs = StageSums(n), StageSums(n), StageSums(n)
        self._far_back: List[Tuple[int, int, float]] = []  # gradients that go from the last units to the first: maker, reader, bytes
        for b, buffer in enumerate(workload.buffers):
            forward, backward = self._read.get(b, set()), self._read_backward.get(b, set())
            if buffer.role not in (None, Role.INPUT):
                continue
            maker = self._made.get(b, -1)
            if b in self._made:
                self._received.add_read_from_outside(buffer.bytes, maker, sorted(forward))
            if b in self._made_backward:
                maker = self._made_backward[b]
                self._returned.add_read_from_behind(buffer.bytes, maker, sorted(backward))
                if backward and maker - min(backward) >= n // 2:
                    self._far_back.append((maker, min(backward), buffer.bytes))
                continue
            after = sorted(u for u in backward if u >= maker)
            if after and maker >= 0 and not buffer.redrawn:
                self._own.add_made_and_read(buffer.bytes, maker, after[0])
            if not buffer.redrawn:
                self._kept.add_read_from_outside(buffer.bytes, maker, after)
            self._inputs.add_read_from_outside(buffer.bytes, maker, sorted(forward | backward))
        self._make_peaks()
        self._make_segments()

    def _make_peaks(self) -> None:
        """The most that an op of each unit has live, by pass: forward, backward, and both without what is kept or made again."""
        numbers: Tuple[List[int], List[int]] = ([], [])
        for i, op in enumerate(self.workload.ops):
            numbers[op.origin.backward].append(i)
        made = set(self._made)
        kept = {b for b in made if b in self._read_backward}
        own_forward, own_backward = self._sweep(numbers[0], kept), self._sweep(numbers[1], made)
        self._forward_peak = Largest(self._sweep(numbers[0], set()))
        self._own_forward_peak = Largest(own_forward)
        self._least_peak = Largest([max(pair) for pair in zip(own_forward, own_backward)])
        self._backward_peak = Largest(self._sweep(numbers[1], set()))
        self._own_backward_peak = Largest(own_backward)
        self._again_peak = Largest(self._peaks_of_segments(numbers[1]))

    def _peaks_of_segments(self, backward: Sequence[int]) -> List[float]:
        """The same when a segment is computed again and then runs backward."""
        segment_of = self._segment_numbers()
        programs: Dict[int, List[int]] = {}
        for i in [*reversed(self._recomputed()), *backward]:
            programs.setdefault(segment_of[self._unit_of[i]], []).append(i)
        peaks = [0.0] * self._n
        for numbers in programs.values():
            peaks = [max(pair) for pair in zip(peaks, self._sweep(numbers, set()))]
        return peaks

    def _sweep(self, numbers: Sequence[int], left_out: Set[int]) -> List[float]:
        """By unit, the most that is live while these ops run one after another, temporary memory included."""
        ops, buffers = self.workload.ops, self.workload.buffers
        first: Dict[int, int] = {}
        last: Dict[int, int] = {}
        changes = [0.0] * (len(numbers) + 1)
        for step, i in enumerate(numbers):
            for b in dict.fromkeys((*ops[i].reads, *ops[i].writes)):
                if buffers[b].redrawn:  # exists only where it is used
                    changes[step] += buffers[b].bytes
                    changes[step + 1] -= buffers[b].bytes
                elif buffers[b].role in (None, Role.INPUT) and b not in left_out:
                    first.setdefault(b, step)
                    last[b] = step
        for b, step in first.items():
            changes[step] += buffers[b].bytes
            changes[last[b] + 1] -= buffers[b].bytes
        peaks = [0.0] * self._n
        live = 0.0
        for step, (i, change) in enumerate(zip(numbers, changes)):
            live += change
            unit = self._unit_of[i]
            reused = 0.0
            if ops[i].work.family == "elementwise":  # written over an argument that nobody reads later
                made = max((buffers[b].bytes for b in ops[i].writes if first.get(b) == step), default=0.0)
                reused = min(made, max((buffers[b].bytes for b in ops[i].reads if last.get(b) == step), default=0.0))
            peaks[unit] = max(peaks[unit], live - reused + self._temporary[i])
        return peaks

    def _make_segments(self) -> None:
        numbers = self._segment_numbers()
        edges = [i for i in range(self._n) if i == 0 or numbers[i] != numbers[i - 1]] + [self._n]
        self._edges, self._number_of = edges, numbers
        self._whole_inputs = Running([self._inputs.of(a, b) for a, b in zip(edges, edges[1:])])

    def _segment_inputs(self, begin: int, end: int) -> float:
        """Bytes that enter the segments of a stage."""
        first, last = self._number_of[begin], self._number_of[end - 1]
        if first == last:
            return self._inputs.of(begin, end)
        a, b = self._edges[first + 1], self._edges[last]
        return self._inputs.of(begin, a) + self._whole_inputs.of(first + 1, last) + self._inputs.of(b, end)


def tied_tail(shared: Sequence[Tuple[int, ...]], n_units: int) -> Optional[int]:
    """The unit from which on units read weights of the first ones, as the head of a tied language model does; None without any.

    Such units must run on the IPU of the first stage, where the weights are.
    """
    tails = [readers[-1] for readers in shared if readers[0] < n_units // 4 and readers[-1] >= n_units // 2]
    return min(tails) if tails else None
