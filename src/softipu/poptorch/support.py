"""What becomes of PopTorch's names on the software IPU, as data for the documentation.

Options say it of themselves (options/effects.py); every other name is supported unless it stands here.
"""

import enum
import inspect
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Tuple

import softipu.poptorch as poptorch
from softipu.poptorch.options import effects
from softipu.poptorch.options.option_set import OptionSet


class Support(enum.Enum):
    """What a program gets."""

    SUPPORTED = "supported"
    REPORTED = "reported"  # accepted; what it asks for has no effect here, and the log says so
    REFUSED = "refused"  # an error that says what to do


@dataclass(frozen=True)
class SupportedName:
    """One public name below ``poptorch``, what becomes of it, and a remark."""

    name: str
    support: Support
    note: str = ""


_MEMORY = "changes memory, placement or speed on hardware, not values"
_REPORTED = {
    "set_available_memory": _MEMORY,
    "set_overlap_for_input": _MEMORY,
    "set_overlap_for_output": _MEMORY,
    "recomputationCheckpoint": _MEMORY,
    "Attribute": "compiler attributes of ops",
    "MultiConv": _MEMORY,
    "TensorLocationSettings": _MEMORY,
    "profiling.Channel": "traces need Graphcore's libpvti",
    "SerialPhasedExecution": "phases change memory, not values",
    "ParallelPhasedExecution": "phases change memory, not values",
}
_REFUSED = {
    "PoplarExecutor.cycleCount": "only hardware counts cycles",
    "ipuHardwareVersion": "there is no hardware",
    "registerGeometricCustomArgParsers": "needs poptorch_geometric",
    "Options.logCycleCount": "only hardware counts cycles: the call of the model is refused",
}
_NOTES = {
    "custom_op": "by a Python implementation registered with softipu.poptorch.custom_ops; an error without one",
    "CPU": "inference only, as in PopTorch",
    "for_loop": "inference only, as in PopTorch",
    "cond": "inference only, as in PopTorch",
    "PoplarExecutor.save": "no code in the file; see design/saved_models",
    "load": "no code of the file is run; see design/saved_models",
    "PoplarExecutor.loadExecutable": "captures the module anew for the inputs in the file",
    "ipuHardwareIsAvailable": "False",
    "Options.enableExecutableCaching": "the compiled engine keeps its programs there; the interpreter has none",
    "Options.Training.setAutomaticLossScaling": "the scale is adjusted once for each call",
}
# Their public attributes are listed too.
_CLASSES = ("PoplarExecutor", "DataLoader", "AsynchronousDataAccessor", "optim.Optimizer", "Stage", "Phase")
_GROUPS = ("Training", "Precision", "TensorLocations", "Distributed", "Jit", "_Popart")


def all_names() -> List[SupportedName]:
    """Every public name of the package and of its main classes, sorted within the package, classes and options."""
    names = [n for n in sorted(poptorch.__all__) if not inspect.ismodule(getattr(poptorch, n))]
    names += [f"optim.{n}" for n in ("SGD", "Adam", "AdamW", "RMSprop", "LAMB", "Optimizer")] + ["profiling.Channel", "testing.allclose"]
    names += [f"{cls}.{member}" for cls in _CLASSES for member in _members(_find(cls))]
    return [_name(name) for name in names] + list(_options())


def _find(dotted: str) -> Any:
    found: Any = poptorch
    for part in dotted.split("."):
        found = getattr(found, part)
    return found


def _members(cls: type) -> List[str]:
    own = {name for parent in cls.__mro__ if parent.__module__.startswith("softipu") for name in vars(parent)}
    return sorted(name for name in own if not name.startswith("_"))


def _name(name: str) -> SupportedName:
    if name in _REFUSED:
        return SupportedName(name, Support.REFUSED, _REFUSED[name])
    if name in _REPORTED:
        return SupportedName(name, Support.REPORTED, _REPORTED[name])
    return SupportedName(name, Support.SUPPORTED, _NOTES.get(name, ""))


def _options() -> Iterator[SupportedName]:
    known = dict(_effects())
    options = poptorch.Options()
    plumbing = set(_members(OptionSet))  # what all sets of options have, such as set(**values)
    setters = [name for name in _members(poptorch.Options) if name not in (plumbing - {"toDict"}) and name not in _GROUPS]
    for group in _GROUPS:
        hidden = {"checkIsFrozen"} if group == "_Popart" else plumbing
        setters += [f"{group}.{name}" for name in _members(type(getattr(options, group))) if name not in hidden]
    for setter in setters:
        name = f"Options.{setter}"
        listed = _name(name)
        effect, why = known.get(setter, (effects.OptionEffect.HONOURED, ""))
        if listed.support is not Support.SUPPORTED or effect is effects.OptionEffect.HONOURED:
            yield listed
        else:
            yield SupportedName(name, Support.REPORTED, why)


def _effects() -> Iterator[Tuple[str, Tuple[effects.OptionEffect, str]]]:
    tables: List[Dict[str, Tuple[str, effects.OptionEffect, str]]] = [effects.OPTIONS, effects.TRAINING, effects.POPART]
    for table in tables:
        for setter, effect, why in table.values():
            yield setter, (effect, why)
    for setter, _, effect, why in effects.PRIVATE.values():
        yield setter, (effect, why)
    for name in _members(type(poptorch.Options().TensorLocations)):
        yield f"TensorLocations.{name}", (effects.OptionEffect.NO_EFFECT, _MEMORY)
    no_effect = effects.OptionEffect.NO_EFFECT
    for setter in ("Precision.halfFloatCasting", "Precision.runningStatisticsAlwaysFloat", "Jit.traceModel"):
        yield setter, (no_effect, "deprecated in PopTorch too")
    for setter in ("_Popart.setPatterns", "_Popart.setEngineOptions", "enableProfiling", "Training.setConvolutionDithering"):
        yield setter, (no_effect, _MEMORY)
    for setter in ("sourceLocationExcludes", "appendToLocationExcludes"):
        yield setter, (no_effect, "the user's lines are found without it")
