"""Options as JSON: every stored value, and the execution strategy."""

from typing import Any, Dict, Tuple

from softipu.poptorch.blocks import strategies
from softipu.poptorch.enums import AutoStage, ConnectionType, Liveness
from softipu.poptorch.options import Options
from softipu.poptorch.saved.values import ValueReader, ValueWriter

_GROUPS = ("_training", "_graphProcessing", "_tensor_locations", "_distributed", "_jit")
_PRIVATE = ("_relax_optimizer_checks", "_show_compilation_progress_bar", "_module_namescope_enabled", "_source_location_excludes")
_STRATEGIES = ("PipelinedExecution", "ShardedExecution", "ParallelPhasedExecution", "SerialPhasedExecution")


def write_options(options: Options, writer: ValueWriter) -> Dict[str, Any]:
    """Options as JSON."""
    return {
        "values": writer.write(dict(options._values)),
        "groups": {name: writer.write(dict(getattr(options, name)._values)) for name in _GROUPS},
        "popart": writer.write(dict(options._popart.options)),
        "private": {name: writer.write(getattr(options, name)) for name in _PRIVATE},
        "strategy": _write_strategy(options._execution_strategy),
    }


def read_options(form: Dict[str, Any], reader: ValueReader) -> Options:
    """The options of a form, not frozen. An offline target is none any more: whoever loads a file wants to run it."""
    options = Options()
    options._values.update(reader.read(form["values"]))
    for name in _GROUPS:
        getattr(options, name)._values.update(reader.read(form["groups"][name]))
    options._popart.options = reader.read(form["popart"])
    for name in _PRIVATE:
        setattr(options, name, reader.read(form["private"][name]))
    options._execution_strategy = _read_strategy(form["strategy"])
    options.deleteIfExists("ipu_version")
    if options.connection_type == ConnectionType.Never:
        options.connectionType(ConnectionType.Always)
    return options


def _write_strategy(strategy: Any) -> Dict[str, Any]:
    form: Dict[str, Any] = {"class": type(strategy).__name__}
    if isinstance(strategy, strategies.PipelinedExecution):
        return {**form, "auto_stage": strategy._auto_stage.name, "stages": [_write_stage(s) for s in strategy._stages]}
    return {
        **form,
        "phases": [[_write_stage(s) for s in phase.stages] for phase in strategy._phases],
        "liveness": strategy._tensors_liveness.name,
        "separate_backward_phase": strategy._separate_backward_phase,
    }


def _write_stage(stage: strategies.Stage) -> Tuple[Any, ...]:
    return list(stage.blocks), stage._ipu


def _read_strategy(form: Dict[str, Any]) -> strategies.ExecutionStrategy:
    if form["class"] not in _STRATEGIES:
        raise ValueError(f"{form['class']} is no execution strategy")
    cls = getattr(strategies, form["class"])
    if "phases" not in form:
        stages = [_read_stage(s) for s in form["stages"]]
        pipelined: strategies.ExecutionStrategy = cls(*stages) if stages else cls(AutoStage[form["auto_stage"]])
        return pipelined
    phased = cls(*[strategies.Phase(*[_read_stage(s) for s in phase]) for phase in form["phases"]])
    phased._tensors_liveness = Liveness[form["liveness"]]
    phased._separate_backward_phase = bool(form["separate_backward_phase"])
    return phased


def _read_stage(form: Any) -> strategies.Stage:
    blocks, ipu = form
    stage = strategies.Stage(*blocks)
    return stage if ipu is None else stage.ipu(ipu)
