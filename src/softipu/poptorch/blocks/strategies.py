"""Execution strategies: how the blocks of a model become stages and phases."""

from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from softipu.poptorch.enums import AutoStage, Liveness


class Stage:
    """Blocks that run one after another on one IPU.

    Raises:
        AssertionError: a block id that is no string.
    """

    def __init__(self, *block_ids: str) -> None:
        assert all(isinstance(block, str) for block in block_ids), f"Block IDs are supposed to be strings but got {block_ids}"
        self._blocks = block_ids
        self._stage_id = -1
        self._phase_id = -1
        self._ipu: Optional[int] = None

    @property
    def blocks(self) -> Tuple[str, ...]:
        """User ids of the blocks."""
        return self._blocks

    def ipu(self, ipu: int) -> "Stage":
        """Set the IPU that runs the stage.

        Raises:
            AssertionError: no int.
        """
        assert isinstance(ipu, int), f"An IPU is given by its number (int), given {ipu!r}"
        self._ipu = ipu
        return self

    def __repr__(self) -> str:
        on = "" if self._ipu is None else f".ipu({self._ipu})"
        return f"Stage({', '.join(map(repr, self._blocks))}){on}"


class Phase:
    """Stages that run at the same time; strings are the blocks of a single stage.

    Raises:
        AssertionError: neither all strings nor all stages.
    """

    def __init__(self, *arg: Union[str, Stage]) -> None:
        self.stages: Sequence[Stage]
        if all(isinstance(element, Stage) for element in arg):
            self.stages = arg  # type: ignore[assignment]
        else:
            assert all(isinstance(element, str) for element in arg), (
                f"All arguments must either be block IDs (strings) or Stages: {[type(element) for element in arg]}"
            )
            self.stages = (Stage(*arg),)  # type: ignore[arg-type]

    def stage(self, idx: int) -> Stage:
        """The stage at this index."""
        return self.stages[idx]

    def ipus(self, *ipus: int) -> None:
        """Set the IPU of every stage.

        Raises:
            AssertionError: not one IPU for each stage.
        """
        assert len(ipus) == len(self.stages), f"Phase contains {len(self.stages)} stages but you provided {len(ipus)} ipus"
        for stage, ipu in zip(self.stages, ipus):
            stage.ipu(ipu)

    def __repr__(self) -> str:
        return f"Phase({', '.join(map(repr, self.stages))})"


class ExecutionStrategy:
    """What the strategies share: the stages by block, empty when stages are made as blocks come."""

    def __init__(self, stages: Dict[str, Stage]) -> None:
        self._block_map = stages

    def stage(self, block_id: str) -> Stage:
        """The stage that was declared for a block.

        Raises:
            AssertionError: the block is in no stage.
        """
        assert block_id in self._block_map, f"Unknown block {block_id}: the stages hold {list(self._block_map)}"
        return self._block_map[block_id]

    def backendOptions(self) -> Dict[str, Any]:
        """The strategy as entries of ``Options.toDict``."""
        raise NotImplementedError


def _register(stage: Stage, stages: Dict[str, Stage]) -> None:
    for block in stage.blocks:
        assert block not in stages, f"{block} associated with more than one stage"
        stages[block] = stage


class PipelinedExecution(ExecutionStrategy):
    """All stages compute at the same time, each on another micro-batch.

    Args:
        args: nothing or an ``AutoStage`` (stages follow from the blocks; SameAsIpu unless given), or the stages in order: each a
            ``Stage``, a block id, or a list of block ids.

    Raises:
        AssertionError: a block in two stages, or block ids that are no strings.
    """

    def __init__(self, *args: Union[AutoStage, str, Stage, List[str]]) -> None:
        self._auto_stage = AutoStage.SameAsIpu
        self._stages: List[Stage] = []
        by_block: Dict[str, Stage] = {}
        if len(args) == 1 and isinstance(args[0], AutoStage):
            self._auto_stage = args[0]
            args = ()
        for number, arg in enumerate(args):
            if isinstance(arg, Stage):
                stage = arg
            elif isinstance(arg, str):
                stage = Stage(arg)
            else:
                assert isinstance(arg, (list, tuple)) and all(isinstance(block, str) for block in arg), (
                    f"A stage is a poptorch.Stage, a block id (string) or a list of block ids, given {arg!r}"
                )
                stage = Stage(*arg)
            stage._stage_id = number
            _register(stage, by_block)
            self._stages.append(stage)
        super().__init__(by_block)

    def backendOptions(self) -> Dict[str, Any]:
        return {"execution_mode": 0}

    def __repr__(self) -> str:
        inside = ", ".join(map(repr, self._stages)) or f"AutoStage.{self._auto_stage.name}"
        return f"{type(self).__name__}({inside})"


class ShardedExecution(PipelinedExecution):
    """The stages compute one after another on the same micro-batch. Arguments as for PipelinedExecution."""

    def backendOptions(self) -> Dict[str, Any]:
        return {"execution_mode": 1}


class _PhasedExecution(ExecutionStrategy):
    """Phases one after another, with tensors in streaming memory between them.

    Args:
        phases: each a ``Phase``, a list of stages, or a list of block ids (one stage).

    Raises:
        AssertionError: no phases, a block in two of them, or wrong types.
    """

    def __init__(self, *phases: Union[Phase, List[Stage], List[str]]) -> None:
        assert phases, "There is currently no AutoStage for PhasedExecution, please explicitly specify the phases"
        self._tensors_liveness = Liveness.AlwaysLive
        self._separate_backward_phase = False
        self._phases: List[Phase] = []
        by_block: Dict[str, Stage] = {}
        for number, arg in enumerate(phases):
            phase = arg if isinstance(arg, Phase) else Phase(*(arg if isinstance(arg, (list, tuple)) else [arg]))
            for stage in phase.stages:
                stage._phase_id = number
                _register(stage, by_block)
            self._phases.append(phase)
        super().__init__(by_block)

    def phase(self, phase: int) -> Phase:
        """The phase at this index.

        Raises:
            AssertionError: no int, or negative.
        """
        assert isinstance(phase, int) and phase >= 0, f"Phases are identified by positive integers, given {phase!r}"
        return self._phases[phase]

    def useSeparateBackwardPhase(self, use: bool = True) -> "_PhasedExecution":
        """Let the backward pass start with a phase of its own instead of sharing the last forward phase."""
        assert isinstance(use, bool), f"useSeparateBackwardPhase needs True or False, given {use!r}"
        self._separate_backward_phase = use
        return self

    def backendOptions(self) -> Dict[str, Any]:
        return {
            "execution_mode": 2,
            "separate_backward_phase": self._separate_backward_phase,
            "tensors_liveness": self._tensors_liveness.value,
            "serial_phases_execution": isinstance(self, SerialPhasedExecution),
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._phases))})"


class ParallelPhasedExecution(_PhasedExecution):
    """Phases that alternate between two groups of IPUs: even phases on even IPUs, odd phases on odd ones."""

    def sendTensorsOffChipAfterFwd(self, off_chip: bool = True) -> "ParallelPhasedExecution":
        """Whether tensors leave the chip between forward and backward pass."""
        assert isinstance(off_chip, bool), f"sendTensorsOffChipAfterFwd needs True or False, given {off_chip!r}"
        self._tensors_liveness = Liveness.OffChipAfterFwd if off_chip else Liveness.AlwaysLive
        return self


class SerialPhasedExecution(_PhasedExecution):
    """All phases on one group of IPUs."""

    def setTensorsLiveness(self, liveness: Liveness) -> "SerialPhasedExecution":
        """When tensors leave the chip. AssertionError: no Liveness."""
        assert isinstance(liveness, Liveness), f"setTensorsLiveness needs a poptorch.Liveness, given {liveness!r}"
        self._tensors_liveness = liveness
        return self
