"""Execution strategies, stages and phases."""

import pytest

from softipu.poptorch.blocks.strategies import (
    ParallelPhasedExecution,
    Phase,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
    Stage,
)
from softipu.poptorch.enums import AutoStage, Liveness


def test_stage_holds_blocks_and_an_ipu():
    stage = Stage("A", "B")
    assert stage.blocks == ("A", "B") and stage.ipu(3) is stage and repr(stage) == "Stage('A', 'B').ipu(3)"


def test_stage_checks_its_types():
    with pytest.raises(AssertionError, match=r"Block IDs are supposed to be strings but got \('A', 2\)"):
        Stage("A", 2)
    with pytest.raises(AssertionError, match=r"given by its number \(int\), given '1'"):
        Stage("A").ipu("1")


def test_phase_of_strings_is_one_stage():
    assert [stage.blocks for stage in Phase("A", "B").stages] == [("A", "B")]
    assert [stage.blocks for stage in Phase(Stage("A"), Stage("B")).stages] == [("A",), ("B",)]


def test_phase_checks_its_types():
    with pytest.raises(AssertionError, match="must either be block IDs"):
        Phase("A", Stage("B"))
    with pytest.raises(AssertionError, match="Phase contains 2 stages but you provided 1 ipus"):
        Phase(Stage("A"), Stage("B")).ipus(0)


def test_pipeline_stages_by_name_object_and_list():
    strategy = PipelinedExecution("A", Stage("B").ipu(2), ["C", "D"])
    assert [strategy.stage(block)._stage_id for block in "ABCD"] == [0, 1, 2, 2]
    strategy.stage("A").ipu(5)
    assert repr(strategy) == "PipelinedExecution(Stage('A').ipu(5), Stage('B').ipu(2), Stage('C', 'D'))"


def test_a_single_name_is_one_block_not_its_letters():
    assert PipelinedExecution("Encoder").stage("Encoder").blocks == ("Encoder",)


@pytest.mark.parametrize("arguments, rule", [((), AutoStage.SameAsIpu), ((AutoStage.AutoIncrement,), AutoStage.AutoIncrement)])
def test_pipeline_without_stages_makes_them_from_blocks(arguments, rule):
    assert PipelinedExecution(*arguments)._auto_stage is rule


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: PipelinedExecution("A", "A"), "A associated with more than one stage"),
        (lambda: ShardedExecution(Stage("A", "B"), ["B"]), "B associated with more than one stage"),
        (lambda: PipelinedExecution(["A", 3]), r"a list of block ids, given \['A', 3\]"),
        (lambda: PipelinedExecution(3), "a list of block ids, given 3"),
        (lambda: PipelinedExecution("A", AutoStage.SameAsIpu), "a list of block ids"),
        (lambda: SerialPhasedExecution(), "There is currently no AutoStage for PhasedExecution"),
        (lambda: SerialPhasedExecution(["A"], ["A"]), "A associated with more than one stage"),
        (lambda: PipelinedExecution("A").stage("B"), r"Unknown block B: the stages hold \['A'\]"),
        (lambda: SerialPhasedExecution("A").phase(-1), "Phases are identified by positive integers, given -1"),
        (lambda: SerialPhasedExecution("A").useSeparateBackwardPhase(1), "needs True or False, given 1"),
        (lambda: SerialPhasedExecution("A").setTensorsLiveness(1), "needs a poptorch.Liveness, given 1"),
        (lambda: ParallelPhasedExecution("A").sendTensorsOffChipAfterFwd(1), "needs True or False, given 1"),
    ],
)
def test_wrong_strategies_are_assertion_errors(make, message):
    with pytest.raises(AssertionError, match=message):
        make()


def test_phases_by_object_and_list():
    strategy = SerialPhasedExecution(Phase(Stage("A"), Stage("A2")), ["B", "B2"], [Stage("C"), Stage("C2")], "D")
    assert [len(strategy.phase(number).stages) for number in range(4)] == [2, 1, 2, 1]
    strategy.phase(2).ipus(0, 1)
    assert strategy.stage("C2")._ipu == 1 and strategy.stage("C2")._phase_id == 2 and strategy.phase(2).stage(0).blocks == ("C",)


def test_backend_options_tell_strategies_apart():
    assert PipelinedExecution().backendOptions() == {"execution_mode": 0}
    assert ShardedExecution().backendOptions() == {"execution_mode": 1}
    serial = SerialPhasedExecution("A").setTensorsLiveness(Liveness.OffChipAfterEachPhase).useSeparateBackwardPhase()
    assert serial.backendOptions() == {
        "execution_mode": 2,
        "separate_backward_phase": True,
        "tensors_liveness": 3,
        "serial_phases_execution": True,
    }
    parallel = ParallelPhasedExecution("A").sendTensorsOffChipAfterFwd()
    assert parallel.backendOptions()["tensors_liveness"] == Liveness.OffChipAfterFwd
    assert parallel.backendOptions()["serial_phases_execution"] is False
    assert parallel.sendTensorsOffChipAfterFwd(False).backendOptions()["tensors_liveness"] == Liveness.AlwaysLive
