"""Which buffers exist when, on workloads made by hand."""

import pytest

from softipu.cost import Plan, Stage, Workload
from softipu.cost.liveness import live_memory, weight_gradients
from softipu.cost.stages import split
from softipu.cost.workload import Buffer, Op, Parameter
from softipu.graph import Role
from softipu.graph.origin import Origin
from softipu.ops import VectorOp, Work

WORK = Work("matmul", vector=((VectorOp.ADD, 1.0),), n_supersteps=1)


def op(name, module, run, reads, writes, *, backward=False, family="matmul"):
    work = Work(family, vector=WORK.vector, n_supersteps=1)
    return Op(name, Origin(module, backward, run), work, tuple(reads), tuple(writes))


def chain():
    """x (100) -> a (10) -> b (1000) -> c (1), with the weight w: backward reads a and b."""
    buffers = (
        Buffer(100.0, Role.INPUT, "0"), Buffer(50.0, Role.PARAMETER, "w"), Buffer(10.0), Buffer(1000.0), Buffer(1.0),
        Buffer(3.0), Buffer(50.0), Buffer(7.0),
    )  # fmt: skip
    ops = (
        op("aten::one", "m.one", 1, [0, 1], [2]),
        op("aten::two", "m.two", 2, [2], [3]),
        op("aten::three", "m.three", 3, [3], [4]),
        op("aten::three_backward", "m.three", 3, [3, 4], [5], backward=True),
        op("aten::two_backward", "m.two", 2, [2, 5], [7], backward=True),
        op("aten::one_backward", "m.one", 1, [7, 2], [6], backward=True),
    )
    return Workload(ops, buffers, (Parameter("w", 25, 2, 1),), (("w", 6),), frozenset([4]), True)


def liveness(w, plan, number=0, **given):
    stage = split(w, plan)[number]
    return live_memory(w, stage, **{"stashed": False, "temporary": {}, "parts": {}, **given})


def test_buffers_live_from_their_op_to_their_last_reader():
    found = liveness(chain(), Plan())
    # x + a; a + b; a + b + c; a + b + c + dc; a + dc + da; a + da + dw. Weights always exist and are not counted.
    assert [p.live for p in found.points] == [110, 1010, 1011, 1014, 20, 67]
    assert found.peak == 3 and sorted(found.at_peak) == [1, 3, 10, 1000]


def test_temporary_memory_may_move_the_peak():
    assert liveness(chain(), Plan(), temporary={0: 5000.0}).peak == 0


def test_a_gradient_made_in_parts_takes_one_part():
    w = chain()
    assert weight_gradients(w) == {6}
    assert liveness(w, Plan(), parts={5: 5}).points[5].live == 10 + 7 + 10


def test_with_a_stash_both_passes_are_programs_of_their_own():
    plan = Plan((Stage("", 0), Stage("m.three", 1)), gradient_accumulation=4)
    found = liveness(chain(), plan, stashed=True)
    assert [p.direction for p in found.points] == ["forward", "forward", "backward", "backward"]
    assert found.stash == (10.0,)
    # Forward: x + a, then a + b; b is sent and lives to the end. Backward: a is back.
    assert [p.live for p in found.points] == [110, 1010, 10 + 3 + 7, 10 + 7 + 50]


def test_recomputation_makes_again_what_the_backward_pass_reads():
    plan = Plan((Stage("", 0, True), Stage("m.three", 1, True)), gradient_accumulation=4, checkpoints=("m.one",))
    stage = split(chain(), plan)[0]
    assert [segment.recomputed for segment in stage.segments] == [(0,), ()]
    assert [sorted(segment.kept) for segment in stage.segments] == [[0], [2]]


def test_an_op_on_each_element_writes_over_what_dies():
    buffers = (Buffer(100.0, Role.INPUT, "0"), Buffer(100.0), Buffer(100.0))
    ops = (op("aten::mm", "", 0, [0], [1]), op("aten::relu", "", 0, [1], [2], family="elementwise"))
    w = Workload(ops, buffers, (), (), frozenset([2]), False)
    assert [p.live for p in liveness(w, Plan()).points] == [200, 100]


@pytest.mark.parametrize("recompute", [False, True])
def test_what_dropout_draws_exists_only_where_it_is_used(recompute):
    """x (8) -> mask m (100) -> y = x*m (8) -> z = big (1000): the mask is drawn again when y's gradient needs it, and not kept for it."""
    buffers = (
        Buffer(8.0, Role.INPUT, "0"), Buffer(50.0, Role.PARAMETER, "w"), Buffer(100.0, redrawn=True), Buffer(8.0), Buffer(1000.0),
        Buffer(4.0), Buffer(8.0), Buffer(50.0), Buffer(1.0),
    )  # fmt: skip
    ops = (
        op("softipu::seeded", "m.drop", 1, [], [2], family="random"),
        op("aten::mul", "m.drop", 1, [0, 2], [3]),
        op("aten::mm", "m.big", 2, [3, 1], [4]),
        op("aten::sum", "m.end", 3, [4], [8]),
        op("aten::sum_backward", "m.end", 3, [8], [5], backward=True),
        op("aten::mm_backward", "m.big", 2, [5, 3, 4], [6, 7], backward=True),
        op("aten::mul_backward", "m.drop", 1, [6, 2], [5], backward=True),
    )
    w = Workload(ops, buffers, (Parameter("w", 25, 2, 1),), (("w", 7),), frozenset([8]), True)
    plan = Plan((Stage("", 0, recompute), Stage("m.end", 1)), gradient_accumulation=4)
    stage = split(w, plan)[0]
    assert stage.segments[0].redrawn == (0,) and 2 not in stage.segments[0].kept
    found = live_memory(w, stage, stashed=True, temporary={}, parts={})
    at = {(p.number, p.direction): p.live for p in found.points}
    assert at[5, "backward"] == 4 + 8 + 1000 + 8 + 50  # dz, y, z, dy, dw: no mask
    assert at[6, "backward"] == 8 + 100 + 4
    drawn_last = [p.number for p in found.points if p.direction == "recompute"][-1]
    assert drawn_last == 0
