"""Which engine runs a model: asked for, or chosen by the work to come.

with engine_choice.using("compiled"):              # models made inside
    model = poptorch.trainingModel(...)

SOFTIPU_ENGINE=compiled python train.py            # models that nobody chose an engine for
"""

import logging
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Callable, Iterator, List, Optional, Set, Tuple

from softipu.errors import Error
from softipu.graph import Step
from softipu.runtime import BatchShape, CannotCompile, Engine, EngineSettings, Program, make_engine
from softipu.runtime.effort import effort
from softipu.runtime.engines import NAMES

VARIABLE = "SOFTIPU_ENGINE"
AUTO = "auto"
ALLOWED = (AUTO, *NAMES)

_log = logging.getLogger("softipu")
_said: Set[str] = set()


@dataclass(frozen=True)
class EngineChoice:
    """What was asked for.

    Attributes:
        name: auto, interpreter or compiled.
        n_calls: calls that the model will get, where that is known.
    """

    name: str = AUTO
    n_calls: Optional[int] = None


_stack: List[EngineChoice] = []


@contextmanager
def using(name: str, n_calls: Optional[int] = None) -> Iterator[None]:
    """Models made inside run on this engine.

    Args:
        name: ``interpreter`` starts at once; ``compiled`` is faster after a compilation; ``auto`` takes what SOFTIPU_ENGINE says,
            or chooses by ``n_calls``.
        n_calls: calls that each of them will get, where that is known.

    Raises:
        Error: no engine of that name.
    """
    _stack.append(EngineChoice(_checked(name, "engine"), n_calls))
    try:
        yield
    finally:
        _stack.pop()


def current() -> EngineChoice:
    """What holds for a model that is made now.

    Raises:
        Error: SOFTIPU_ENGINE names no engine.
    """
    asked = _stack[-1] if _stack else EngineChoice()
    wanted = os.environ.get(VARIABLE, "").strip()
    if asked.name == AUTO and wanted:
        return EngineChoice(_checked(wanted, VARIABLE), asked.n_calls)
    return asked


def build(choice: EngineChoice, step: Step, shape: BatchShape, settings: EngineSettings, make: Callable[[Engine], Program]) -> Program:
    """A program on the chosen engine; on the interpreter if the other cannot run it. Says once which one and why.

    Args:
        choice: what was asked for.
        step: the captured step.
        shape: micro-batches per call.
        settings: for the engine.
        make: makes the program on an engine; called again after it raised CannotCompile.
    """
    name, reason = _decide(choice, step, shape)
    if name != "interpreter":
        try:
            program = make(make_engine(name, settings))
        except CannotCompile as error:
            _say(f"softipu: running on the interpreter, not on the engine '{name}': {error}.", logging.WARNING, about=str(error))
            return make(make_engine("interpreter", settings))
        _say(f"softipu: running on the engine '{name}': {reason}.", logging.INFO, about=name)
        return program
    _say(f"softipu: running on the interpreter: {reason}.", logging.INFO, about=name)
    return make(make_engine(name, settings))


def _decide(choice: EngineChoice, step: Step, shape: BatchShape) -> Tuple[str, str]:
    if choice.name != AUTO:
        return choice.name, "asked for"
    if choice.n_calls is None:
        return "interpreter", f"the work to come is not known ({VARIABLE}=compiled compiles)"
    n_micro_batches, needed = choice.n_calls * shape.n_micro_batches, effort(step).pays_after()
    if n_micro_batches < needed:
        return "interpreter", (
            f"this run has {n_micro_batches:,} micro-batches, too few to win back the time that compiling would take (that needs about "
            f"{needed:,}; {VARIABLE}=compiled compiles all the same)"
        )
    return "compiled", (
        f"this run has {n_micro_batches:,} micro-batches, enough to win back the time that compiling takes (that needs about {needed:,}; "
        f"{VARIABLE}=interpreter starts at once)"
    )


def _checked(name: str, what: str) -> str:
    if name not in ALLOWED:
        raise Error(f"Unknown engine in {what}: {name!r}. Allowed: {', '.join(ALLOWED)}.")
    return name


def _say(message: str, level: int, *, about: str) -> None:
    """Logs ``message``, the first one about an engine."""
    if about in _said:
        return
    _said.add(about)
    # Users see it without setting logging up.
    if not _log.handlers and not logging.getLogger().handlers:
        _log.addHandler(logging.StreamHandler(sys.stderr))
        _log.propagate = False
    if _log.level == logging.NOTSET:
        _log.setLevel(logging.INFO)
    _log.log(level, message)
