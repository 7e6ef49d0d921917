"""What is wrong with an entry of a file of published runs, before anything is built from it. Keys that are not known are left alone."""

from typing import Any, Iterator, Mapping

RUN_KEYS = ("system", "ipus_per_replica", "replicas", "micro_batch", "phase")
PHASES = ("training", "inference")
RECOMPUTE = ("none", "every-layer", "residual-adds")
_COUNTS = ("ipus_per_replica", "replicas", "micro_batch", "gradient_accumulation", "device_iterations", "embedding_serialization")


def problem_of(number: int, entry: Any) -> str:
    """A sentence that names the entry and says what it lacks or cannot mean; empty for one that can be tried."""
    return next(_problems(number, entry), "")


def _problems(number: int, entry: Any) -> Iterator[str]:
    if not isinstance(entry, Mapping):
        yield f"Entry number {number} of the published runs is {entry!r}; an entry has id, model, run, measured and source."
        return
    name = entry.get("id", f"number {number}")
    for key in ("id", "model", "run"):
        if key not in entry:
            yield f"Entry {name} of the published runs lacks {key!r}. An entry has id, model, run, measured and source."
    for key in ("model", "run", "measured"):
        if not isinstance(entry.get(key) or {}, Mapping):
            yield f"Entry {name} of the published runs has {entry[key]!r} as its {key}; give an object with names and values."
            return
    yield from _run_problems(name, entry.get("run") or {})
    for key, value in (entry.get("model") or {}).items():
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value <= 0 and "dropout" not in key:
            yield f"The model of entry {name} has {key} {value!r}; give a size above 0."


def _run_problems(name: Any, run: Mapping[str, Any]) -> Iterator[str]:
    missing = [key for key in RUN_KEYS if run.get(key) is None]
    if missing:
        yield f"The run of entry {name} lacks {', '.join(map(repr, missing))}. It must have {', '.join(RUN_KEYS)}."
    for key in _COUNTS:
        value = run.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            yield f"Run {name} has {key} {value!r}; give a whole number from 1."
    for key, allowed in (("phase", PHASES), ("recompute", RECOMPUTE)):
        if run.get(key) is not None and run[key] not in allowed:
            yield f"Run {name} has {key} {run[key]!r}; known are {', '.join(allowed)}."
    given = run.get("available_memory_proportion")
    proportions = given if isinstance(given, (list, tuple)) else [] if given is None else [given]
    for value in proportions:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
            yield f"Run {name} has available_memory_proportion {given!r}; give fractions above 0 and at most 1: one, or one for each IPU."
