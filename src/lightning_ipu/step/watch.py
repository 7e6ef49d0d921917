"""Watches what a step reads from and writes to its module and trainer while it is captured.

A captured step does not run its Python again, so everything that Python did has to be known: values that were read are guarded
(`Read`), attributes that were set and lists that grew are done again on the host after each call (`Write`, `Growth`).

While a step is captured the objects have a subclass of their class, whose attribute access reports here; the objects themselves, and what
`isinstance` and `super()` say, stay the same.
"""

import contextlib
import functools
import sys
from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Optional, Sequence, Set, Tuple

import torch
from torch import nn
from torch.nn.utils.parametrize import ParametrizationList

from lightning_ipu.live.names import Scope
from lightning_ipu.live.numbers import Needs, Place, is_live, live, user_place
from lightning_ipu.live.recapture import Recapture
from lightning_ipu.step.reads import MISSING, PLAIN, Read, fingerprint_of
from lightning_ipu.step.writes import Growth, Write
from lightning_ipu.structures.structure import take_apart

_NUMBERS = (int, float)
_REGISTRIES = ("_parameters", "_buffers", "_modules")
# Second lists of weights that nn.RNNBase keeps; the weights themselves are parameters.
_WEIGHT_LISTS = frozenset(["_flat_weights", "_flat_weight_refs", "_all_weights", "_flat_weights_names"])


class Watch:
    """One capture's record.

    Args:
        module: the LightningModule whose step is captured.
        trainer: its Trainer.
        needs: takes the guards of live numbers.
        live: keys of attributes that are known to change: numbers under them become live; and modules as in ``scopes``.
        fixed: keys of live numbers that something in the step cannot take as such: they are read as plain values and guarded.
        internal: names on the module that Lightning and PyTorch keep for themselves.
        skipped: metrics, whose Python runs on the host.
        weight_in_step: what the step gets for a parameter that it reads as an attribute.
    """

    def __init__(
        self,
        module: nn.Module,
        trainer: Any,
        needs: Needs,
        live: FrozenSet[Any],
        fixed: FrozenSet[Any],
        internal: Set[str],
        skipped: Sequence[nn.Module],
        weight_in_step: Callable[[torch.Tensor], torch.Tensor],
    ) -> None:
        self.module, self.trainer, self.needs = module, trainer, needs
        self._live, self.fixed, self._internal = live, fixed, internal
        self.reads: Dict[Tuple[int, str], Read] = {}
        self._set: Dict[Tuple[int, str], Tuple[Any, str, Any]] = {}
        self._containers: Dict[int, Tuple[Any, str, Any]] = {}
        outside = {id(part) for metric in skipped for part in metric.modules()}
        self._names = {id(part): name for name, part in module.named_modules() if id(part) not in outside}
        self._objects = [part for part in module.modules() if id(part) not in outside and not isinstance(part, torch.jit.ScriptModule)]
        self.last_live: FrozenSet[Any] = frozenset()
        self.live_sources: Dict[Any, Callable[[], Any]] = {}
        self.loggers: List[Place] = []
        self._weight_in_step = weight_in_step
        # Both tensors are kept, so that no other one gets the same id.
        self._weights: Dict[int, Tuple[torch.Tensor, torch.Tensor]] = {}

    @property
    def scopes(self) -> List[Scope]:
        """Modules of the user's in which float, int and math have to take live numbers."""
        return [key for key in self._live if isinstance(key, Scope)]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Reports reads and writes while the step runs; containers that it changed are as before afterwards."""
        swapped = []
        global _active
        before, _active = _active, self
        try:
            for thing in [*self._objects, *([self.trainer] if self.trainer is not None else [])]:
                kind = type(thing)
                watched = _watched(kind)  # type: ignore[arg-type]
                if watched is not None:
                    thing.__class__ = watched
                    swapped.append((thing, kind))
            yield
        finally:
            _active = before
            for thing, kind in swapped:
                thing.__class__ = kind

    # What the subclasses report

    def logger_used(self, file: str, line: int) -> None:
        """Notes a line of the user's that asks for the logger; Lightning's own do too."""
        place = user_place()
        if place == Place(file, line) and place not in self.loggers:
            self.loggers.append(place)

    def read(self, owner: Any, name: str, value: Any) -> Any:
        """What the step gets for an attribute of ``owner`` whose value is ``value``."""
        if owner is self.trainer:
            return self._read_trainer(name, value)
        if name == "_flat_weights":
            return [self._weight(weight) if isinstance(weight, torch.Tensor) else weight for weight in value]
        if (name in self._internal and name != "training") or name in _WEIGHT_LISTS:
            return value
        place = (id(owner), name)
        if place in self._set:
            return self._set[place][2]
        key = ("attribute", *place)
        label = self._label(owner, name)
        if type(value) in _NUMBERS and key in self._live and key not in self.fixed:
            self.last_live = frozenset([key])
            self.live_sources[key] = lambda: getattr(owner, name)
            return self._live_number(key, label, value)
        if place not in self.reads:
            self.reads[place] = Read(owner, name, label, fingerprint_of(value), user_place())
            if isinstance(value, (list, set, dict)) and id(value) not in self._containers:
                self._containers[id(value)] = (value, label, type(value)(value) if type(value) in (list, set, dict) else None)
        return value

    def read_missing(self, owner: Any, name: str) -> Any:
        """What the step gets for an attribute that the object itself does not have: a parameter, or what the step has set."""
        parameter = owner.__dict__.get("_parameters", {}).get(name)
        if parameter is not None:
            return parameter if _makes_a_weight(owner, name) else self._weight(parameter)
        place = (id(owner), name)
        if place in self._set:
            return self._set[place][2]
        if not any(name in owner.__dict__.get(registry, ()) for registry in _REGISTRIES):
            self.reads.setdefault(place, Read(owner, name, self._label(owner, name), fingerprint_of(MISSING), user_place()))
        raise AttributeError(f"'{type(owner).__name__}' object has no attribute '{name}'")

    def _weight(self, parameter: torch.Tensor) -> torch.Tensor:
        if id(parameter) not in self._weights:
            used = self._weight_in_step(parameter)
            if used is parameter:
                return parameter
            self._weights[id(parameter)] = (parameter, used)
        return self._weights[id(parameter)][1]

    def _read_trainer(self, name: str, value: Any) -> Any:
        if name in ("global_step", "current_epoch"):
            if name in self.fixed:
                self.reads.setdefault(
                    (id(self.trainer), name), Read(self.trainer, name, f"trainer.{name}", fingerprint_of(value), user_place())
                )
                return value
            self.last_live = frozenset([name])
            return live(self.needs, name, name)
        if type(value) in PLAIN and not name.startswith("_"):
            place = (id(self.trainer), name)
            self.reads.setdefault(place, Read(self.trainer, name, f"trainer.{name}", fingerprint_of(value), user_place()))
        return value

    def _live_number(self, key: Any, label: str, value: Any) -> Any:
        self.needs.env.setdefault(key, value)  # type: ignore[attr-defined]
        return live(self.needs, key, label)

    @contextlib.contextmanager
    def optimizers_live(self, optimizers: Sequence[torch.optim.Optimizer], schedulers: Sequence[Any]) -> Iterator[None]:
        """While the step runs, learning rates and the other numbers of optimizers and schedulers are live: a step may log them."""
        changed: List[Tuple[Any, Any, Any]] = []

        def replace(container: Any, key: Any, label: str) -> None:
            value = container[key]
            if type(value) in _NUMBERS:
                place = ("optimizer", id(container), key)
                self.live_sources[place] = lambda: container[key]
                changed.append((container, key, value))
                container[key] = self._live_number(place, label, value)

        try:
            for optimizer in optimizers:
                for index, group in enumerate(optimizer.param_groups):
                    for key in list(group):
                        replace(group, key, f"param_groups[{index}][{key!r}]")
            for scheduler in schedulers:
                rates = getattr(scheduler, "_last_lr", None)
                for index in range(len(rates) if isinstance(rates, list) else 0):
                    replace(rates, index, f"get_last_lr()[{index}]")
            yield
        finally:
            for container, key, value in changed:
                container[key] = value

    def write(self, owner: Any, name: str, value: Any) -> bool:
        """Takes note of an assignment; False leaves it to the object itself."""
        if owner is self.trainer or name in self._internal or isinstance(value, (nn.Module, nn.Parameter)):
            return False
        if any(name in owner.__dict__.get(registry, ()) for registry in _REGISTRIES):
            return False
        place = (id(owner), name)
        key = ("attribute", *place)
        earlier = self.reads.get(place)
        number = is_live(value) or type(value) in _NUMBERS
        if earlier is not None and number and type(owner.__dict__.get(name)) in _NUMBERS and key not in self.fixed:
            # It counts or accumulates: what it reads changes with every micro-batch.
            raise Recapture(live=frozenset([key]))
        label = self._label(owner, name)
        holds_tensors = any(isinstance(leaf, torch.Tensor) for leaf in take_apart(value)[0])
        if holds_tensors and earlier is not None and place not in self._set:
            what = "a tensor" if isinstance(value, torch.Tensor) else f"a {type(value).__name__} with tensors"
            raise StateOnModule(
                f"The step reads {label} ({earlier.place}) and sets it to {what} that it computed ({user_place()}): a state that lives "
                f"from step to step has to be a buffer on an IPU. In __init__ call self.register_buffer({name!r}, ...), and in the step "
                f"change it in place: self.{name}.copy_(...). What is only kept for a hook can be appended to a list."
            )
        self._set[place] = (owner, label, value)
        return True

    # What became of it

    def writes(self, reference: Callable[[Any], Any]) -> List[Write]:
        """The attributes that were set, tensors in them replaced through ``reference``."""
        return [Write(owner, place[1], label, reference(value)) for place, (owner, label, value) in self._set.items()]

    def growths(self, reference: Callable[[Any], Any]) -> List[Growth]:
        """What was added to containers, which are as before now.

        Raises:
            StateOnModule: a container was changed in another way than by adding to it.
        """
        found = []
        for container, label, before in list(self._containers.values()):
            if before is None or before is container or _same_items(container, before):
                continue
            items = _added(container, before)
            if items is None:
                _restore(container, before)
                raise StateOnModule(
                    f"The step changes {label} in place. On an IPU its Python runs only when it is captured; items that are added can be "
                    "added again after every call, other changes cannot. Change it in a hook such as on_train_batch_end instead."
                )
            _restore(container, before)
            found.append(Growth(container, label, tuple(reference(item) for item in items)))
            # What a step adds to, it need not capture again when it has grown.
            self.reads = {place: read for place, read in self.reads.items() if read.current() is not container}
        return found

    def _label(self, owner: Any, name: str) -> str:
        prefix = self._names.get(id(owner), "")
        return f"self.{prefix}.{name}" if prefix else f"self.{name}"


def _makes_a_weight(owner: nn.Module, name: str) -> bool:
    """Whether a parameter is there to compute a weight from, as those of spectral and weight normalisation are."""
    if isinstance(owner, ParametrizationList):
        return True
    hooked = [getattr(hook, "name", None) for hook in owner._forward_pre_hooks.values()]
    return any(isinstance(weight, str) and name.startswith(f"{weight}_") for weight in hooked)


class StateOnModule(Exception):
    """A change of the module that cannot be made again on the host."""


_active: Optional[Watch] = None


def _same_items(container: Any, before: Any) -> bool:
    if len(container) != len(before):
        return False
    if isinstance(container, dict):
        return all(key in container and container[key] is item for key, item in before.items())
    if isinstance(container, set):
        return bool(container == before)
    return all(now is then for now, then in zip(container, before))


def _added(container: Any, before: Any) -> Optional[List[Any]]:
    if isinstance(container, dict):
        if any(key not in container for key in before):
            return None
        return [(key, item) for key, item in container.items() if key not in before or before[key] is not item]
    if isinstance(container, set):
        return list(container - before) if before <= container else None
    if len(container) < len(before) or any(now is not then for now, then in zip(container, before)):
        return None
    return list(container[len(before) :])


def _restore(container: Any, before: Any) -> None:
    container.clear()
    container.extend(before) if isinstance(container, list) else container.update(before)


@functools.lru_cache(maxsize=None)
def _watched(kind: type) -> Optional[type]:
    """A subclass of ``kind`` whose attribute access reports to the running watch."""
    inherited_get: Any = kind.__getattribute__
    inherited_set: Any = kind.__setattr__
    is_trainer = not issubclass(kind, nn.Module)

    def __getattribute__(self: Any, name: str) -> Any:
        try:
            value = inherited_get(self, name)
        except AttributeError:
            if _active is None or (name.startswith("__") and name.endswith("__")):
                raise
            return _active.read_missing(self, name)
        if _active is None or (name.startswith("__") and name.endswith("__")):
            return value
        if name in ("logger", "loggers"):
            frame = sys._getframe(1)
            _active.logger_used(frame.f_code.co_filename, frame.f_lineno)
        if name in object.__getattribute__(self, "__dict__") or (type(value) in PLAIN and (is_trainer or _is_class_value(kind, name))):
            return _active.read(self, name, value)
        if is_trainer and name in ("global_step", "current_epoch"):
            return _active.read(self, name, value)
        return value

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if _active is None or not _active.write(self, name, value):
            inherited_set(self, name, value)

    names = {
        "__getattribute__": __getattribute__,
        "__setattr__": __setattr__,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__slots__": (),
    }
    try:
        return type(kind)(kind.__name__, (kind,), names)
    except TypeError:
        return None


def _is_class_value(kind: type, name: str) -> bool:
    for base in kind.__mro__:
        if name in vars(base):
            return base is not nn.Module and type(vars(base)[name]) in PLAIN
    return False
