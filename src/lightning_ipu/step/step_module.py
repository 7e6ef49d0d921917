"""What PopTorch compiles: one step of a LightningModule as the forward of a module.

forward takes the tensors of one micro-batch and of the live numbers, and returns a flat tuple: the loss in training, then every tensor that
the step returned, logged, gave to a metric or left on the module. Where they belong is in `Captured`.
"""

import contextlib
import functools
import operator
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Optional, Sequence, Set, Tuple

import torch
from torch import nn

from lightning_ipu.live import names as live_names
from lightning_ipu.live import torch_functions as live_torch
from lightning_ipu.live.kinds import Kinds
from lightning_ipu.live.numbers import Guard, Needs, applied, is_live, live, user_place
from lightning_ipu.live.recapture import Recapture
from lightning_ipu.step import drawn
from lightning_ipu.step.logged import MetricResult, Notes, OutputOf
from lightning_ipu.step.reads import Read
from lightning_ipu.step.watch import Watch
from lightning_ipu.step.writes import Growth, Write
from lightning_ipu.structures.host_value import HostValue
from lightning_ipu.structures.outputs import OutputShape
from lightning_ipu.structures.structure import Form, mapped, put_together

# Live numbers that one step may use as inputs; more make a larger bank and a second capture.
FIRST_SLOTS = 8


@dataclass
class Captured:
    """What is known of a step once it has been captured.

    Attributes:
        returned: the step's return value with tensors replaced by OutputOf.
        loss: which output is the loss; None outside training.
        shapes: of the outputs, for one micro-batch.
        notes, writes, growths: what the host does again after each call.
        guards, reads: what has to hold for the captured step to be used.
        slots: expressions of the live numbers that are inputs, whole and floating ones.
        texts: live numbers that were turned into text.
        loggers: lines that use the Trainer's loggers.
        drawn_from: random generators of the host that the step drew from.
        live_sources: how to read the live numbers of the module and the optimizers, by key.
        looked_at: places of arguments that are neither tensors nor numbers and that the step looked at.
    """

    returned: Any = None
    loss: Optional[int] = None
    shapes: List[OutputShape] = field(default_factory=list)
    notes: List[Any] = field(default_factory=list)
    writes: List[Write] = field(default_factory=list)
    growths: List[Growth] = field(default_factory=list)
    guards: List[Guard] = field(default_factory=list)
    reads: List[Read] = field(default_factory=list)
    slots: Tuple[List[Any], List[Any]] = field(default_factory=lambda: ([], []))
    texts: List[Any] = field(default_factory=list)
    loggers: List[Any] = field(default_factory=list)
    drawn_from: List[str] = field(default_factory=list)
    looked_at: Set[int] = field(default_factory=set)
    live_sources: Dict[Any, Callable[[], Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """What a step is called with, besides tensors.

    Attributes:
        step: ``training_step``, ``validation_step``, ``test_step`` or ``predict_step``.
        form: of the step's arguments.
        others: leaves that are no tensors, by place: a LiveLeaf for a number, a Constant, else the value of the first call.
        n_leaves: all leaves.
        micro_rows: samples of a micro-batch, or None.
        share: what the gradients count, of a whole update's; 1 but for a rest.
        joins_scalars: whether the host joins the scalars of several micro-batches to that of one batch.
    """

    step: str
    form: Form
    others: Dict[int, Any]
    n_leaves: int
    micro_rows: Optional[int] = None
    share: float = 1.0
    joins_scalars: bool = False


_TENSOR = object()


class SlotsExhausted(BaseException):
    """The step uses more live numbers than there are inputs for."""


class StepModule(nn.Module):
    """A step of ``module`` for PopTorch.

    Args:
        module: the LightningModule.
        call: how the step is called.
        watch: makes the record of a capture.
        notes: makes the notes of a capture.
        identity_loss: marks a share of the loss, in training; None elsewhere.
        context: entered around the step.
        schedules: the user's optimizers and schedulers, whose numbers the step may read.
        twin: hold the weights in parameters of this module's own, which share their memory with ``module``'s. For a second executor that
            trains the same weights: PopTorch lets a parameter belong to one executor only.
        n_slots: how many live numbers of each kind may be inputs.
    """

    def __init__(
        self,
        module: nn.Module,
        call: Call,
        *,
        watch: Callable[[Needs], Watch],
        notes: Callable[[Callable[[Any], Any], Callable[[str, Any], None]], Notes],
        env: Dict[Any, Any],
        identity_loss: Optional[Callable[..., torch.Tensor]],
        context: Callable[[], Any],
        schedules: Tuple[Sequence[Any], Sequence[Any]],
        twin: bool,
        n_slots: int,
    ) -> None:
        super().__init__()
        self._of_host = (module,)  # in a tuple, so that a twin does not register it
        if twin:
            self.module, self._pairs = twin_of(module)
        else:
            self.module, self._pairs = module, []
        self._call, self._watch, self._notes, self._env = call, watch, notes, env
        self._identity_loss, self._context, self._n_slots = identity_loss, context, n_slots
        self._schedules = schedules
        # Of now: callbacks may rename parameters, as pruning does, while PopTorch goes on with these.
        self._names = {id(parameter): f"module.{name}" for name, parameter in module.named_parameters()}
        self.captured: Optional[Captured] = None

    def stand_ins(self) -> Dict[int, nn.Parameter]:
        """A twin's parameters by the id of the user's; empty otherwise."""
        return {id(owner): registry_of(holder, kind)[name] for owner, holder, kind, name in self._pairs if kind == "_parameters"}

    def names(self) -> Dict[int, str]:
        """Names of the user's parameters as PopTorch has them, by id."""
        return self._names

    def train(self, mode: bool = True) -> "StepModule":
        """Nothing: the LightningModule's own modes are the user's."""
        return self

    def forward(self, whole_numbers: torch.Tensor, floats: torch.Tensor, *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        module = self._of_host[0]
        captured = Captured()
        outputs = _Outputs()
        banks = (whole_numbers.reshape(-1, self._n_slots)[0], floats.reshape(-1, self._n_slots)[0])

        def as_tensor(expression: Any, value: Any) -> torch.Tensor:
            kind = 0 if isinstance(value, int) else 1
            if len(captured.slots[kind]) == self._n_slots:
                raise SlotsExhausted
            captured.slots[kind].append(expression)
            if kind == 0:  # 0 may become 0.5, which does not fit into a whole number's input
                needs.guards.append(
                    Guard(lambda env: isinstance(expression(env), int), True, ("a whole number",), frozenset(), user_place())
                )
            return banks[kind][len(captured.slots[kind]) - 1]

        needs = Needs(dict(self._env), as_tensor)
        watch = self._watch(needs)
        notes = self._notes(outputs.reference, needs.fix_name)
        arguments = self._arguments(tensors, needs, watch.fixed, captured.looked_at)
        before = drawn.states(module)
        with self._weights_in_place(module):
            kinds = Kinds(self._call.micro_rows, [*module.parameters(), *module.buffers(), *banks])
        with self._weights_in_place(module), notes.taking(module), on_device_of(module, tensors), self._context():
            names = live_names.replaced(watch.scopes, applied, is_live, needs.fix_texts)
            takes = live_torch.taking_live(is_live)
            with takes, watch.running(), watch.optimizers_live(*self._schedules), kinds, names, torch.autograd.set_detect_anomaly(False):
                try:
                    returned = getattr(module, self._call.step)(*arguments)
                    writes, growths = watch.writes(outputs.reference_in), watch.growths(outputs.reference_in)
                except (TypeError, RuntimeError) as error:
                    if "LiveNumber" not in str(error):
                        raise
                    raise Recapture(fixed=watch.last_live or frozenset(["batch_idx"])) from error
        captured.drawn_from = drawn.drawn_from(module, before)
        captured.writes, captured.growths = writes, growths
        if self._identity_loss is not None:
            returned = self._with_marked_loss(returned, captured, outputs, kinds)
        captured.returned = outputs.reference_in(returned)
        captured.notes, captured.guards, captured.texts = notes.notes, needs.guards, needs.texts
        captured.reads, captured.live_sources = list(watch.reads.values()), watch.live_sources
        captured.loggers = watch.loggers
        derived = outputs.derived(kinds) if self._call.joins_scalars else {}
        captured.shapes = [OutputShape(tuple(t.shape), t.dtype, kinds.of(t), derived.get(i)) for i, t in enumerate(outputs.tensors)]
        self.captured = captured
        return tuple(outputs.tensors)

    def _arguments(self, tensors: Sequence[torch.Tensor], needs: Needs, fixed: FrozenSet[Any], looked_at: Set[int]) -> Any:
        remaining = iter(tensors)
        leaves: List[Any] = []
        for place in range(self._call.n_leaves):
            leaf = self._call.others.get(place, _TENSOR)
            if leaf is _TENSOR:
                leaves.append(next(remaining))
            elif isinstance(leaf, Constant):
                leaves.append(leaf.value)
            elif not isinstance(leaf, LiveLeaf):
                leaves.append(HostValue(place, leaf, looked_at.add))
            elif leaf.key not in fixed:
                leaves.append(live(needs, leaf.key, leaf.label))
            else:
                value = needs.env[leaf.key]
                needs.guards.append(Guard(operator.itemgetter(leaf.key), value, (leaf.label,), frozenset([leaf.key]), None))
                leaves.append(value)
        return put_together(self._call.form, leaves)

    def _with_marked_loss(self, returned: Any, captured: Captured, outputs: "_Outputs", kinds: Kinds) -> Any:
        loss = returned.get("loss") if isinstance(returned, dict) else returned
        if not isinstance(loss, torch.Tensor):
            what = "None" if returned is None else type(returned).__name__
            missing = " without a tensor under 'loss'" if isinstance(returned, dict) else ""
            raise NoLoss(
                f"training_step returned {what}{missing}. On an IPU every call of the step updates the weights, so each must return its "
                "loss: a tensor, or a dict with the key 'loss'. To leave a batch out, leave it out of the DataLoader, or multiply the loss "
                "by 0."
            )
        assert self._identity_loss is not None
        share = self._call.share
        marked = self._identity_loss(loss, share)
        if share != 1.0:
            marked = loss  # what the host gets
        kinds.mark_same(marked, loss)
        captured.loss = outputs.reference(marked).index
        return {**returned, "loss": marked} if isinstance(returned, dict) else marked

    @contextlib.contextmanager
    def _weights_in_place(self, module: nn.Module) -> Iterator[None]:
        """For a twin: the tensors that PopTorch traces, in the places of the LightningModule's own."""
        if not self._pairs:
            yield
            return
        traced = {id(owner): registry_of(holder, kind)[name] for owner, holder, kind, name in self._pairs}
        saved: List[Tuple[Dict[str, Any], str, Any]] = []
        flat = []
        for part in module.modules():
            registries: Tuple[Dict[str, Any], Dict[str, Any]] = (part._parameters, part._buffers)
            for registry in registries:
                for name, value in registry.items():
                    if value is not None:
                        saved.append((registry, name, value))
                        registry[name] = traced[id(value)]
            if isinstance(part, nn.RNNBase):
                flat.append((part, list(part._flat_weights)))
                part._flat_weights = [getattr(part, name, None) for name in part._flat_weights_names]
        try:
            yield
        finally:
            for registry, name, value in saved:
                registry[name] = value
            for part, weights in flat:
                part._flat_weights = weights


class NoLoss(Exception):
    """training_step did not return a loss."""


@dataclass(frozen=True)
class LiveLeaf:
    """Stands for a number among the step's arguments."""

    key: Any
    label: str


@dataclass(frozen=True)
class Constant:
    """Stands for an argument that is the same in all calls of one captured step."""

    value: Any


class _Outputs:
    """The tensors that a step gives to the host, each once."""

    def __init__(self) -> None:
        self.tensors: List[torch.Tensor] = []
        self._places: Dict[int, int] = {}

    def reference(self, value: Any) -> Any:
        """OutputOf for a tensor; other values as they are."""
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in self._places:
            self._places[id(value)] = len(self.tensors)
            self.tensors.append(value)
        return OutputOf(self._places[id(value)])

    def derived(self, kinds: Kinds) -> Dict[int, Any]:
        """For outputs that follow from other scalars, by place: what gives one from these, which become outputs too."""
        found = {}
        for place, tensor in enumerate(self.tensors):  # which grows
            derivation = kinds.derivation(tensor)
            if derivation is not None:
                arguments = self.reference_in((derivation.args, derivation.kwargs))
                found[place] = functools.partial(_again, derivation.function, arguments)
        return found

    def reference_in(self, value: Any) -> Any:
        """The same structure with OutputOf for tensors, and ResultOf for results of metrics."""
        return mapped(lambda leaf: leaf.reference if isinstance(leaf, MetricResult) else self.reference(leaf), value)


def _again(function: Callable[..., Any], arguments: Any, value_of: Callable[[int], torch.Tensor]) -> torch.Tensor:
    """``function`` of the values that outputs have now; half ones in float32, in which older versions of torch compute on the host."""

    def of_leaf(leaf: Any) -> Any:
        value = value_of(leaf.index) if isinstance(leaf, OutputOf) else leaf
        return value.float() if isinstance(value, torch.Tensor) and value.dtype == torch.float16 else value

    args, kwargs = mapped(of_leaf, arguments)
    made: torch.Tensor = function(*args, **kwargs)
    return made


def registry_of(module: nn.Module, kind: str) -> Dict[str, Any]:
    """A module's own parameters or buffers."""
    found: Dict[str, Any] = getattr(module, kind)
    return found


def twin_of(module: nn.Module) -> Tuple[nn.Module, List[Tuple[Any, nn.Module, str, str]]]:
    """Modules of the same names that hold parameters and buffers of their own on the same memory.

    Returns:
        the root, and for every tensor of ``module``: itself, the holder of its twin, which registry, and its name there.
    """
    root = nn.Module()
    pairs = []
    for kind, named in (("_parameters", module.named_parameters()), ("_buffers", module.named_buffers())):
        for path, tensor in named:
            holder = root
            *folders, name = path.split(".")
            for folder in folders:
                if folder not in holder._modules:
                    holder.add_module(folder, nn.Module())
                holder = holder._modules[folder]  # type: ignore[assignment]
            shared = tensor.detach()
            if kind == "_parameters":
                holder.register_parameter(name, nn.Parameter(shared, requires_grad=tensor.requires_grad))
            else:
                holder.register_buffer(name, shared)
            pairs.append((tensor, holder, kind, name))
    return root, pairs


@contextlib.contextmanager
def on_device_of(module: nn.Module, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """While the step is captured ``self.device`` is the device that its tensors are on; the host's is the CPU."""
    device = next((tensor.device for tensor in tensors), None)
    parts = [part for part in module.modules() if "_device" in part.__dict__ and isinstance(part.__dict__["_device"], torch.device)]
    before = [part.__dict__["_device"] for part in parts]
    for part in parts:
        if device is not None:
            part.__dict__["_device"] = device
    try:
        yield
    finally:
        for part, own in zip(parts, before):
            part.__dict__["_device"] = own
