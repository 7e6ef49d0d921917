"""Stages, IPUs and pipeline rules that follow from blocks and strategies."""

import pytest

from softipu.errors import Error
from softipu.poptorch.blocks.placement import check_number_of_ipus, check_pipeline_is_filled, check_stages_run_forward, place_blocks
from softipu.poptorch.blocks.scope import BlockId
from softipu.poptorch.blocks.strategies import (
    ParallelPhasedExecution,
    Phase,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
    Stage,
)
from softipu.poptorch.enums import AutoStage


def blocks(*ipus, first=()):
    return [*first, *(BlockId(str(number), ipu) for number, ipu in enumerate(ipus))]


def stages(placement, sequence):
    return [(placement.place(block).stage, placement.place(block).ipu) for block in sequence]


def test_a_model_without_blocks_is_one_stage_on_one_ipu():
    for sequence in ([], [None, None]):
        placement = place_blocks(sequence, PipelinedExecution())
        assert (placement.n_stages, placement.n_ipus, placement.is_pipelined) == (1, 1, False)


def test_same_as_ipu_takes_the_stage_from_the_ipu():
    sequence = blocks(0, 1, 3)
    placement = place_blocks(sequence, PipelinedExecution())
    assert stages(placement, sequence) == [(0, 0), (1, 1), (3, 3)]
    assert (placement.n_stages, placement.n_ipus, placement.is_pipelined) == (3, 4, True)


def test_what_comes_before_the_first_block_is_stage_0_on_ipu_0():
    sequence = blocks(1, 1, first=[None, None])
    placement = place_blocks(sequence, PipelinedExecution())
    assert stages(placement, [None, *sequence[2:]]) == [(0, 0), (1, 1), (1, 1)]
    assert placement.n_stages == 2


def test_neighbouring_stages_on_one_ipu_count_once():
    sequence = blocks(0, 0)
    placement = place_blocks(sequence, PipelinedExecution(AutoStage.AutoIncrement))
    assert stages(placement, sequence) == [(1, 0), (2, 0)] and placement.n_stages == 1 and not placement.is_pipelined


def test_auto_increment_makes_a_stage_of_every_new_block():
    sequence = blocks(0, 1, 2, 1)
    placement = place_blocks(sequence + [sequence[3]], PipelinedExecution(AutoStage.AutoIncrement))
    assert stages(placement, sequence) == [(1, 0), (2, 1), (3, 2), (4, 1)]
    assert (placement.n_stages, placement.n_ipus) == (4, 3)


def test_same_as_ipu_carries_the_last_ipu_on():
    sequence = blocks(2, None)
    assert stages(place_blocks(sequence, PipelinedExecution()), sequence)[1][0] == 2


def test_same_as_ipu_needs_an_ipu_first():
    with pytest.raises(AssertionError, match="poptorch.AutoStage.SameAsIpu was selected but no IPU was specified for block 0"):
        place_blocks(blocks(None, 1), PipelinedExecution())


def test_explicit_stages_default_to_ipus_of_the_same_number():
    sequence = [BlockId("A"), BlockId("B"), BlockId("C")]
    placement = place_blocks(sequence, PipelinedExecution("A", ["B", "C"]))
    assert stages(placement, sequence) == [(0, 0), (1, 1), (1, 1)] and placement.n_stages == 2


def test_ipu_of_the_stage_goes_before_that_of_the_block():
    sequence = [BlockId("A", 0), BlockId("B", 1)]
    placement = place_blocks(sequence, PipelinedExecution(Stage("A").ipu(3), "B"))
    assert stages(placement, sequence) == [(0, 3), (1, 1)]


def test_unknown_block_names_the_known_ones():
    with pytest.raises(AssertionError, match=r"Unknown Block 'C' list of expected Blocks: \['A', 'B'\]"):
        place_blocks([BlockId("A"), BlockId("C")], PipelinedExecution("A", "B"))


def test_a_pipeline_stage_cannot_be_on_two_ipus():
    with pytest.raises(Error, match="must be on one IPU, but stage 0 has 'A' on IPU 0, 'B' on IPU 1"):
        place_blocks([BlockId("A", 0), BlockId("B", 1)], PipelinedExecution(Stage("A", "B")))


def test_operation_outside_a_block_after_one_is_an_error():
    with pytest.raises(Error, match="No active Block, all the ops must belong to a Block: an operation runs after block '0' has ended"):
        place_blocks([None, *blocks(0), None], PipelinedExecution())


def test_serial_phases_share_their_ipus():
    sequence = [BlockId(name) for name in ("A", "A2", "B", "B2")]
    strategy = SerialPhasedExecution([Stage("A"), Stage("A2")], [Stage("B"), Stage("B2")])
    placement = place_blocks(sequence, strategy)
    assert [(placement.place(b).phase, placement.place(b).ipu) for b in sequence] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert placement.n_ipus == 2 and not placement.is_pipelined


def test_parallel_phases_alternate_between_even_and_odd_ipus():
    sequence = [BlockId(name) for name in ("A", "A2", "B", "B2", "C", "C2")]
    strategy = ParallelPhasedExecution(*(Phase(Stage(name), Stage(name + "2")) for name in "ABC"))
    placement = place_blocks(sequence, strategy)
    assert [placement.place(b).ipu for b in sequence] == [0, 2, 1, 3, 0, 2] and placement.n_ipus == 4


def check(n_blocks, strategy=None, **given):
    placement = place_blocks(blocks(*range(n_blocks)), strategy or PipelinedExecution())
    check_pipeline_is_filled(placement, **{"training": True, "gradient_accumulation": 1, "device_iterations": 1, **given})


@pytest.mark.parametrize("n_stages, needed", [(1, 1), (2, 3), (4, 7)])
def test_training_needs_twice_the_stages_less_one(n_stages, needed):
    check(n_stages, gradient_accumulation=needed)
    if needed > 1:
        message = (
            r"poptorch\.Options\(\)\.Training\.gradientAccumulation must be greater than or equal to the number of pipeline stages "
            rf"\({needed}\) when using poptorch\.PipelinedExecution\. Please note that a model with {n_stages} pipeline stages in "
            rf"PopTorch will have an additional {n_stages - 1} stages when training\. Given {needed - 1}\."
        )
        with pytest.raises(Error, match=message):
            check(n_stages, gradient_accumulation=needed - 1, device_iterations=100)


def test_inference_needs_as_many_iterations_as_stages():
    check(4, training=False, device_iterations=4)
    message = r"poptorch\.Options\(\)\.deviceIterations must be greater than or equal to the number of pipeline stages \(4\)"
    with pytest.raises(Error, match=message):
        check(4, training=False, device_iterations=3)


@pytest.mark.parametrize("strategy", [ShardedExecution(), SerialPhasedExecution(*"0123")])
def test_only_pipelines_have_to_be_filled(strategy):
    check(4, strategy)
    check(4, strategy, training=False)


def test_replicas_multiply_ipus():
    placement = place_blocks(blocks(0, 2), PipelinedExecution())
    assert check_number_of_ipus(placement, 5) == 15
    assert check_number_of_ipus(placement, 21) == 63
    with pytest.raises(Error, match=r"Too many IPUs requested \(66\)\. Experiments that need more than 64 IPUs require distributed"):
        check_number_of_ipus(placement, 22)


def test_results_of_a_pipeline_go_forward_only():
    first, second = blocks(0, 1)
    back = BlockId("back", 0)
    same = place_blocks([first, second, back], PipelinedExecution())
    with pytest.raises(Error, match=r"block 'back' \(stage 0, IPU 0\) uses a result of block '1' \(stage 1, IPU 1\).*AutoIncrement"):
        check_stages_run_forward(same, [(first, second), (second, back)])
    check_stages_run_forward(same, [(first, second), (first, back)])
    for strategy in (PipelinedExecution(AutoStage.AutoIncrement), ShardedExecution()):
        check_stages_run_forward(place_blocks([first, second, back], strategy), [(first, second), (second, back)])
