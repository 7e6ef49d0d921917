"""Ops belong to the stage and segment where a plan puts them."""

import pytest

from softipu.cost import Plan, Stage
from softipu.cost.stages import split
from softipu.errors import Error
from tests.softipu.cost.small_step import workload

LAYERS = tuple(f"layers.{i}" for i in range(4))


def two_stages(*, recompute=False, checkpoints=()):
    return Plan((Stage("", 0, recompute), Stage("layers.2", 1, recompute)), micro_batch=2, gradient_accumulation=8, checkpoints=checkpoints)


def numbers(stage):
    return [i for segment in stage.segments for i in (*segment.forward, *segment.backward)]


def test_every_op_belongs_to_one_stage():
    w = workload()
    found = split(w, two_stages())
    assert sorted(i for stage in found for i in numbers(stage)) == list(range(len(w.ops)))


def test_backward_ops_run_where_their_forward_ops_ran():
    w = workload()
    first, second = split(w, two_stages())
    for stage, paths in ((first, ("layers.0", "layers.1")), (second, ("layers.2", "layers.3"))):
        modules = {w.ops[i].origin.module for i in numbers(stage) if w.ops[i].origin.module.startswith("layers.")}
        assert {module[: len("layers.0")] for module in modules} == set(paths)


def test_the_second_stage_receives_what_the_first_sends():
    w = workload()
    first, second = split(w, two_stages())
    assert second.received == first.sent
    assert [w.buffers[b].bytes for b in first.sent] == [2 * 16 * 32 * 2]  # micro-batch, tokens, width, half
    assert first.received == () and first.received_backward


def test_stages_on_one_ipu_send_nothing_over_links():
    plan = Plan((Stage("", 0), Stage("layers.2", 1), Stage("head", 0)), micro_batch=2, gradient_accumulation=8)
    first, second, third = split(workload(), plan)
    assert second.received and third.received
    assert not set(third.received) & set(first.sent)


def test_without_recomputation_nothing_runs_again():
    assert not any(segment.recomputed for stage in split(workload(), two_stages()) for segment in stage.segments)


def test_recomputation_keeps_only_what_enters_a_segment():
    w = workload()
    plain = split(w, two_stages())
    again = split(w, two_stages(recompute=True, checkpoints=LAYERS))

    def kept(stage):
        return sum(w.buffers[b].bytes for b in {b for segment in stage.segments for b in segment.kept})

    assert kept(again[0]) < kept(plain[0])
    assert all(
        segment.recomputed for segment in again[0].segments if segment.backward and segment.forward and segment is not again[0].segments[0]
    )


def test_the_segment_that_runs_backward_at_once_is_not_recomputed():
    last = split(workload(), two_stages(recompute=True, checkpoints=LAYERS))[-1]
    assert last.segments[-1].recomputed == ()
    assert last.segments[0].recomputed


def test_unknown_module_is_an_error_that_lists_modules():
    with pytest.raises(Error, match=r"A stage begins at module 'layers\.9', which runs no op\. Modules with ops begin with .*embedding"):
        split(workload(), Plan((Stage("", 0), Stage("layers.9", 1)), micro_batch=2))


def test_stages_out_of_order_are_an_error():
    with pytest.raises(Error, match="'layers.1' comes after one that begins later"):
        split(workload(), Plan((Stage("", 0), Stage("layers.2", 1), Stage("layers.1", 2)), micro_batch=2))


def test_unknown_checkpoint_is_an_error():
    with pytest.raises(Error, match="Checkpoints layers.9 name modules that run no op"):
        split(workload(), Plan(checkpoints=("layers.9",), micro_batch=2))
