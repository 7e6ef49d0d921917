"""self.log and torchmetrics inside a compiled step: noted while the step is captured, done on the host after every call.

A value that is logged and an argument of a metric become outputs of the step. After a call the notes are gone through once for every
batch that a CPU run of the same effective batch would have had: the micro-batches of all replicas, joined. So values, weights and the
states of metrics are the CPU's. Metrics keep their states on the host.
"""

import contextlib
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch
from torch import nn

from lightning_ipu._lightning import Lightning
from lightning_ipu.live.numbers import Place, evaluated, is_live, user_place
from lightning_ipu.structures.structure import Form, Leaf, mapped, put_together, take_apart


@dataclass(frozen=True)
class OutputOf(Leaf):
    """Stands for a tensor that the step computes: its place among the outputs."""

    index: int


@dataclass(frozen=True)
class ResultOf(Leaf):
    """Stands for what a metric returned: which note, and the keys into it."""

    note: int
    path: Tuple[Any, ...] = ()


class MetricResult:
    """What a metric's call gives inside a step. Its value is known on the host after the call: log it, nothing else."""

    def __init__(self, reference: ResultOf, label: str, keys: Optional[Sequence[Any]] = None) -> None:
        self.reference, self._label, self._keys = reference, label, keys

    def __getitem__(self, key: Any) -> "MetricResult":
        return MetricResult(ResultOf(self.reference.note, (*self.reference.path, key)), f"{self._label}[{key!r}]")

    def keys(self) -> Sequence[Any]:
        """The names of a MetricCollection's results."""
        return self._keys if self._keys is not None else self._refuse("keys()")

    def items(self) -> List[Tuple[Any, "MetricResult"]]:
        """The results of a MetricCollection by name."""
        return [(key, self[key]) for key in self.keys()]

    def detach(self) -> "MetricResult":
        """Itself: no gradient leads here."""
        return self

    def _refuse(self, what: str) -> Any:
        raise MetricArithmetic(
            f"The step computes with the value of {self._label} ({what}). Metrics keep their state on the host, so on an IPU this value "
            "does not exist yet while the step runs. Log it (self.log(name, value)), compute with it in a hook such as "
            "on_train_batch_end, or compute the quantity from the tensors of the step instead."
        )

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse(f".{name}")

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: Tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return next(arg for arg in (*args, *(kwargs or {}).values()) if isinstance(arg, MetricResult))._refuse(
            getattr(func, "__name__", "a tensor operation")
        )


class MetricArithmetic(Exception):
    """The step computes with a metric's value, which exists on the host only."""


def _refusing(name: str) -> Callable[..., Any]:
    return lambda self, *others: self._refuse(name.strip("_"))


for _name in (
    "add",
    "radd",
    "sub",
    "rsub",
    "mul",
    "rmul",
    "truediv",
    "rtruediv",
    "floordiv",
    "pow",
    "neg",
    "abs",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
):
    setattr(MetricResult, f"__{_name}__", _refusing(f"__{_name}__"))
for _name in ("float", "int", "bool", "len", "format", "index", "hash"):
    setattr(MetricResult, f"__{_name}__", _refusing(f"__{_name}__"))


@dataclass(frozen=True)
class LogNote:
    """One call of ``self.log``: the value may be an OutputOf, a ResultOf, a live number, a metric or a plain number.

    A metric of a MetricCollection has the ``collection``.
    """

    name: str
    value: Any
    options: Dict[str, Any]
    collection: Any = None


@dataclass(frozen=True)
class MetricNote:
    """One call of a metric's method; leaves of the arguments may be OutputOf or live numbers."""

    metric: Any
    method: str
    form: Form
    leaves: Tuple[Any, ...]


class Notes:
    """What one capture logged, in order.

    Args:
        lightning: the package of the module.
        reference: replaces the tensors in a value by OutputOf.
        name_used: told a name that something is logged under, and the user's line.
    """

    def __init__(self, lightning: Lightning, reference: Callable[[Any], Any], name_used: Callable[[str, Optional[Place]], None]) -> None:
        self._lightning, self._reference, self._name_used = lightning, reference, name_used
        self.notes: List[Any] = []
        self._collections: Dict[int, Any] = {}

    @contextlib.contextmanager
    def taking(self, module: nn.Module) -> Iterator[None]:
        """Replaces ``log`` of ``module`` and the methods of its metrics by ones that take notes."""
        replaced: List[Tuple[Any, str, Any]] = []

        def replace(thing: Any, name: str, function: Any) -> None:
            replaced.append((thing, name, thing.__dict__.get(name, replaced)))
            thing.__dict__[name] = function

        try:
            replace(module, "log", self._log_of(module))
            for label, metric in metrics_of(module):
                if _is_collection(metric):
                    self._collections.update((id(member), metric) for member in metric.modules() if member is not metric)
                for method in ("forward", "update", "compute", "reset"):
                    replace(metric, method, self._method_of(metric, method, f"self.{label}"))
            yield
        finally:
            for thing, name, before in reversed(replaced):
                if before is replaced:
                    thing.__dict__.pop(name, None)
                else:
                    thing.__dict__[name] = before

    def _log_of(self, module: Any) -> Callable[..., None]:
        def log(name: str, value: Any, *args: Any, **kwargs: Any) -> None:
            self._name_used(name, user_place())
            options = dict(zip(("prog_bar", "logger", "on_step", "on_epoch", "reduce_fx", "enable_graph", "sync_dist"), args), **kwargs)
            if isinstance(value, torch.Tensor) and value.numel() != 1:
                raise ValueError(
                    f"self.log({name!r}, {tuple(value.shape)} tensor): the logged tensor must have a single element. Log its mean, or each "
                    "element under its own name."
                )
            self.notes.append(LogNote(name, self._noted(value), options, self._collections.get(id(value))))

        return log

    def _noted(self, value: Any) -> Any:
        if isinstance(value, MetricResult):
            return value.reference
        return self._reference(value) if isinstance(value, torch.Tensor) else value

    def _method_of(self, metric: Any, method: str, label: str) -> Callable[..., Any]:
        keys = list(metric.keys(keep_base=False)) if _is_collection(metric) else None

        def noted(*args: Any, **kwargs: Any) -> Any:
            leaves, form = take_apart((args, kwargs))
            for leaf in leaves:
                if isinstance(leaf, MetricResult):
                    leaf._refuse(f"an argument of {label}")
            self.notes.append(MetricNote(metric, method, form, tuple(self._reference(leaf) for leaf in leaves)))
            return MetricResult(ResultOf(len(self.notes) - 1), label, keys) if method in ("forward", "compute") else None

        return noted


def metrics_of(module: nn.Module) -> List[Tuple[str, Any]]:
    """The outermost metrics of ``module`` by name: those that are no part of another one.

    Also those in plain lists and dictionaries on its parts, where PyTorch does not see them.
    """
    from torchmetrics import Metric, MetricCollection

    found: List[Tuple[str, Any]] = []
    inside: Set[int] = set()
    parts = list(module.named_modules())
    for name, part in [*parts, *(hidden for label, owner in parts for hidden in _in_containers(label, owner))]:
        if isinstance(part, (Metric, MetricCollection)):
            if id(part) not in inside:
                found.append((name, part))
            inside.update(id(child) for child in part.modules())
    return found


def _in_containers(label: str, part: nn.Module) -> Iterator[Tuple[str, Any]]:
    for name, value in vars(part).items():
        if name.startswith("_"):
            continue
        members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
        for key, member in members:
            if isinstance(member, nn.Module):
                yield f"{label}.{name}[{key!r}]".lstrip("."), member


def _is_collection(metric: Any) -> bool:
    from torchmetrics import MetricCollection

    return isinstance(metric, MetricCollection)


class Group:
    """The micro-batches of one batch of an equivalent CPU run, as notes need it.

    Args:
        value_of: the joined value of an output: rows of all micro-batches, a scalar as its kind says.
        env: the live numbers of this batch.
        n_micro_batches: of how many micro-batches it is made up.
        n_rows: its rows, or None where the batch does not tell.
        is_whole: whether it is the whole host batch, so that Lightning can find its size itself.
    """

    def __init__(
        self, value_of: Callable[[int], torch.Tensor], env: Any, n_micro_batches: int, n_rows: Optional[int], *, is_whole: bool
    ) -> None:
        self.value_of, self.env, self.n_micro_batches, self.n_rows, self.is_whole = value_of, env, n_micro_batches, n_rows, is_whole


def replay(notes: Sequence[Any], module: Any, group: Group) -> None:
    """Does on the host what the notes say, for one batch."""
    results: Dict[int, Any] = {}
    for position, note in enumerate(notes):
        if isinstance(note, LogNote):
            _log(note, module, group, results)
        else:
            results[position] = _call(note, group)


def _call(note: MetricNote, group: Group) -> Any:
    args, kwargs = put_together(note.form, [_value(leaf, group) for leaf in note.leaves])
    if _is_weighted_mean(note.metric) and note.method in ("forward", "update"):
        # weight=len(batch) was the rows of one micro-batch, and the value is that of all of them.
        args = (*args[:1], *(_of_all(weight, group) for weight in args[1:]))
        kwargs = {name: _of_all(value, group) if name == "weight" else value for name, value in kwargs.items()}
    method = note.metric if note.method == "forward" else getattr(note.metric, note.method)
    with torch.no_grad():
        return method(*args, **kwargs)


def _is_weighted_mean(metric: Any) -> bool:
    from torchmetrics import MeanMetric

    return isinstance(metric, MeanMetric)


def _of_all(weight: Any, group: Group) -> Any:
    return weight * group.n_micro_batches if isinstance(weight, (int, float)) else weight


def _log(note: LogNote, module: Any, group: Group, results: Dict[int, Any]) -> None:
    options = {name: evaluated(value, group.env) for name, value in note.options.items()}
    value = note.value
    if isinstance(value, ResultOf):
        value = _followed(results[value.note], value.path)
    elif isinstance(value, OutputOf):
        value = group.value_of(value.index)
    else:
        value = mapped(lambda leaf: _value(leaf, group), value) if isinstance(value, dict) else evaluated(value, group.env)
    if (
        options.get("reduce_fx") in ("sum", sum, torch.sum)
        and type(value) in (int, float)
        and value * group.n_micro_batches == group.n_rows
    ):
        value = _of_all(value, group)  # len(batch) counts the samples of one micro-batch
    if options.get("batch_size") is not None:
        options["batch_size"] = options["batch_size"] * group.n_micro_batches
    elif not group.is_whole and group.n_rows is not None:
        options["batch_size"] = group.n_rows
    if note.collection is not None:
        # Members that share a state get it from the first of them when they are asked for, which self.log_dict did at capture only.
        note.collection.items(keep_base=True, copy_state=False)
    module.log(note.name, value, **options)


def _followed(value: Any, path: Sequence[Any]) -> Any:
    for key in path:
        value = value[key]
    return value


def _value(leaf: Any, group: Group) -> Any:
    if isinstance(leaf, OutputOf):
        return group.value_of(leaf.index)
    return evaluated(leaf, group.env) if is_live(leaf) else leaf
