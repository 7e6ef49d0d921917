"""Runs one kind of step (training, validation, test or prediction) of a LightningModule, host batch by host batch.

For every call: cut the host batch into what the device takes at once, find a captured step whose guards hold (or capture one), give it
the IPUs, run it, and do on the host what the step did beside computing: logging, metrics, attributes.
"""

import contextlib
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, Iterator, List, Optional, Sequence, Set, Tuple

import torch

from lightning_ipu.live.numbers import evaluated
from lightning_ipu.loading.cutting import Piece, Sizes, one_by_one, parts_of, pieces_of
from lightning_ipu.step.captured_step import CapturedStep, Changed, Conditions
from lightning_ipu.step.device import Device
from lightning_ipu.step.logged import Group, OutputOf, ResultOf, replay
from lightning_ipu.step.step_module import Call, Constant, LiveLeaf
from lightning_ipu.step.writes import grow_again, set_again
from lightning_ipu.structures.host_value import is_host_value
from lightning_ipu.structures.outputs import Results, whole
from lightning_ipu.structures.structure import Form, first_rows, mapped, paths, take_apart
from lightning_ipu.updates import counters

# Captures of one step for one shape of batch. A step that needs more reads something new in every call.
MOST_CAPTURES = 16


@dataclass
class Arguments:
    """What Lightning calls a step with, taken apart.

    Attributes:
        leaves, form: of all arguments.
        tensors: the leaves that are tensors, by place.
        others: the leaves that are not: a LiveLeaf for a number, else the value.
        numbers: values of the numbers, by key.
        dataloader_idx: which loader the batch is from, 0 with one.
        batch_idx: of the host batch.
    """

    leaves: List[Any]
    form: Form
    tensors: Dict[int, torch.Tensor]
    others: Dict[int, Any]
    numbers: Dict[Any, Any]
    dataloader_idx: int
    batch_idx: int
    rows: Optional[int] = field(default=None)


class Mixed(Exception):
    """The Python of a step takes several ways within one call of the device."""

    def __init__(self, change: Changed) -> None:
        super().__init__(change.text)
        self.change = change


def arguments_of(args: Sequence[Any], batch_idx: int) -> Arguments:
    """Takes the arguments of a step apart: (batch,), (batch, batch_idx) or (batch, batch_idx, dataloader_idx)."""
    batch_leaves, _ = take_apart(args[0])
    leaves, form = take_apart(tuple(args[:2]) if len(args) < 3 else tuple(args))
    tensors, others, numbers = {}, {}, {}  # type: Dict[int, torch.Tensor], Dict[int, Any], Dict[Any, Any]
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            tensors[place] = leaf
        elif place == len(batch_leaves):
            others[place] = LiveLeaf("batch_idx", "batch_idx")
        elif place > len(batch_leaves):
            others[place] = Constant(leaf)  # dataloader_idx: there is one step per loader
        elif isinstance(leaf, (bool, int, float)):
            others[place] = LiveLeaf(("batch", place), f"number {place} of the batch")
            numbers[("batch", place)] = leaf
        else:
            others[place] = leaf
    return Arguments(leaves, form, tensors, others, numbers, args[2] if len(args) > 2 else 0, batch_idx, first_rows(args[0]))


class Program:
    """All captured steps of one kind.

    Args:
        strategy: gives sizes, options and what a capture needs.
        step: ``training_step``, ``validation_step``, ``test_step`` or ``predict_step``.
        device: the IPUs.
    """

    def __init__(self, strategy: Any, step: str, device: Device) -> None:
        self._strategy, self.step, self._device = strategy, step, device
        self.trains = step == "training_step"
        self.steps: List[CapturedStep] = []
        self._live: FrozenSet[Any] = frozenset()
        self._fixed: FrozenSet[Any] = frozenset()
        self._told: Set[str] = set()
        self.n_updates = self.n_batches = 0

    def run(self, args: Sequence[Any], batch_idx: int, sizes: Sizes, most_updates: Optional[int] = None) -> Any:
        """Runs one host batch and returns what the step returns for it."""
        arguments = arguments_of(args, batch_idx)
        pieces = pieces_of(arguments.rows, sizes, trains=self.trains, most_updates=most_updates)
        self.n_updates = self.n_batches = 0
        is_whole = len(pieces) == 1 and sizes.n_micro_batches == 1
        if self.trains and most_updates is None:
            self._tell_dropped(arguments.rows, sizes)
        done = []
        if self.trains and self._strategy.host_updates.is_always:
            pieces = [one for piece in pieces for one in self._for_host_updates(piece, arguments.rows)]
        while pieces:
            piece, *pieces = pieces
            try:
                done.append(self._run_piece(arguments, piece, sizes, is_whole=is_whole))
                self.n_updates += piece.n_updates
                self.n_batches += piece.cut.n_groups
            except Mixed as mixed:
                pieces = [*self._one_by_one(piece, arguments, mixed), *pieces]
        return self._returned(done, arguments) if done else None

    def _tell_dropped(self, rows: Optional[int], sizes: Sizes) -> None:
        """Warns once about rows of a rest that no update takes, unless that has been told before training."""
        if sizes.is_rest_known or rows is None or sizes.update_rows is None:
            return
        lost = sizes.dropped_of(rows % sizes.update_rows)
        if lost and "dropped" not in self._told:
            self._told.add("dropped")
            self._strategy.lightning.warn(
                f"{lost} samples are dropped at the end of this epoch: they are fewer than the {sizes.update_rows} of one weight update "
                f"(batch_size {sizes.micro_rows} x replicas {sizes.n_replicas} x accumulation {sizes.n_accumulated}). The same is done "
                "in every epoch."
            )

    def _for_host_updates(self, piece: Piece, batch_rows: Optional[int]) -> List[Piece]:
        """A piece as single updates, since each needs the weights of the one before; where there are hooks around backward, as its
        micro-batches."""
        takes_micro_batches = self._strategy.host_updates.takes_micro_batches
        if piece.cut.n_iterations == 1 and not (takes_micro_batches and piece.cut.n_groups > 1):
            return [piece]
        rows = batch_rows if piece.n_rows is None else piece.n_rows
        is_split = takes_micro_batches and self._strategy.sizes(trains=True).is_split
        if rows is None or piece.cut.micro_rows is None or is_split:
            what = "A model split over IPUs" if is_split else "A batch without a tensor"
            raise self._strategy.lightning.misconfiguration(
                f"{what} cannot be cut into the micro-batches that the hooks around backward see one by one. Use device_iterations=1 "
                "and accumulate_grad_batches=1, or leave the hooks out."
            )
        updates = one_by_one(piece, rows) if piece.cut.n_iterations > 1 else [piece]
        if not takes_micro_batches:
            return updates
        return [part for one in updates for part in (parts_of(one, one.n_rows or rows) if one.cut.n_groups > 1 else [one])]

    def _one_by_one(self, piece: Piece, arguments: Arguments, mixed: "Mixed") -> List[Piece]:
        """A piece as several calls, for a step whose Python takes several ways within it: its device iterations, or, of one update, the
        groups of micro-batches that it accumulates."""
        cut = piece.cut
        rows = arguments.rows if piece.n_rows is None else piece.n_rows
        is_update = cut.n_iterations == 1
        is_split = is_update and self._strategy.sizes(trains=True).is_split
        if cut.micro_rows is None or rows is None or cut.n_groups == 1 or is_split:
            raise self._strategy.lightning.misconfiguration(
                f"Within one weight update of {self.step}, {mixed.change.text}: all micro-batches of an update run the same program. Use "
                "torch.where(...) on the condition, or accumulate_grad_batches=1."
            )
        subject = f"{mixed.change.subject} within one {'update' if is_update else 'call'}"
        if subject not in self._told:
            self._told.add(subject)
            if is_update:
                told = (
                    f"within the {cut.n_accumulated} micro-batches of one weight update. Where that is so they run one by one, by a "
                    "program of their own, and the host adds up their gradients and makes the update: on an IPU another compilation, and "
                    "gradients and weights cross to the host and back"
                )
            else:
                told = (
                    f"within the {cut.n_iterations} device iterations of one call. They run one by one where that is so, by a program of "
                    "their own, which on an IPU is another compilation"
                )
            self._strategy.lightning.warn(f"{self.step}: {mixed.change.text}, {told}. torch.where(...) on the condition avoids both.")
        return parts_of(piece, rows) if is_update else one_by_one(piece, rows)

    def _run_piece(
        self, arguments: Arguments, piece: Piece, sizes: Sizes, *, is_whole: bool
    ) -> Tuple[CapturedStep, Results, Dict[Any, Any]]:
        tensors = [piece.rows_of(tensor, arguments.rows) for tensor in arguments.tensors.values()]
        environments = self._environments(arguments, piece, sizes)
        captured, environments = self._step_for(arguments, piece, tensors, environments)
        device, step = self._device, captured.compiled
        device.make_ready(step)
        if self.trains and not step.updates_on_host:
            self._strategy.bring_optimizer_up_to_date(step)
        inputs = captured.inputs(environments, piece.cut)
        with self._strategy.timed_call(), self._naming_the_batch(environments):
            outputs = step.executor(*inputs, *tensors)
        if self.trains:
            device.after_training_call(step)
        if step.updates_on_host:
            self._strategy.host_updates.take(step)
        results = Results(outputs, captured.record.shapes, piece.cut)
        if self.trains and self._strategy.detects_anomalies:
            self._refuse_anomalies(results, captured, environments)
        self._replay(captured, results, environments, arguments, is_whole=is_whole)
        if step.updates_on_host:
            loss = results.micro_batches(captured.record.loss or 0, slice(0, results.cut.n_real)).mean() * piece.cut.share
            with counters.updates_done(self._strategy.trainer, self.n_updates):
                self._strategy.host_updates.make(loss, environments[0]["batch_idx"], is_complete=piece.ends_update)
        return captured, results, environments[-1]

    @contextlib.contextmanager
    def _naming_the_batch(self, environments: List[Dict[Any, Any]]) -> Iterator[None]:
        """With Trainer(detect_anomaly=True), says in which batches the device met a number that is none."""
        try:
            yield
        except self._strategy.poptorch.Error as error:
            if not (self.trains and self._strategy.detects_anomalies):
                raise
            first, last = environments[0]["batch_idx"], environments[-1]["batch_idx"]
            batches = f"batch {first}" if first == last else f"batches {first} to {last}"
            raise RuntimeError(f"Trainer(detect_anomaly=True): in {batches} {error}") from error

    def _refuse_anomalies(self, results: Results, captured: CapturedStep, environments: List[Dict[Any, Any]]) -> None:
        losses = results.micro_batches(captured.record.loss or 0, slice(0, results.cut.n_real))
        wrong = (~torch.isfinite(losses.float().flatten(1).sum(1) if losses.dim() > 1 else losses.float())).nonzero().flatten().tolist()
        if wrong:
            batch = environments[wrong[0] // results.cut.n_replicas]["batch_idx"]
            raise RuntimeError(
                f"Trainer(detect_anomaly=True): the loss of batch {batch} is {losses[wrong[0]].tolist()}. The step runs on the device as a "
                "whole, so only its outputs can be looked at: run the same batch with accelerator='cpu' to see which operation it was."
            )

    # Which captured step

    def _environments(self, arguments: Arguments, piece: Piece, sizes: Sizes) -> List[Dict[Any, Any]]:
        """The live numbers of every group, as a CPU run with the same effective batch would have them."""
        trainer = self._strategy.trainer
        before = arguments.batch_idx * sizes.n_iterations
        if self.trains:
            before = self._strategy.position.updates_before(trainer.current_epoch, arguments.batch_idx, sizes)
        first = before * sizes.n_accumulated + piece.first_group
        base = {"current_epoch": trainer.current_epoch, **arguments.numbers}
        updates = trainer.global_step + self.n_updates
        return [
            {**base, "batch_idx": first + j, "global_step": updates + j // piece.cut.n_accumulated if self.trains else updates}
            for j in range(piece.cut.n_groups)
        ]

    def _step_for(
        self, arguments: Arguments, piece: Piece, tensors: List[torch.Tensor], environments: List[Dict[Any, Any]]
    ) -> Tuple[CapturedStep, List[Dict[Any, Any]]]:
        conditions = Conditions(
            form=arguments.form,
            cut=(piece.cut.n_iterations, piece.cut.n_accumulated, piece.cut.n_replicas, piece.cut.share, piece.cut.is_part),
            shapes=tuple((tuple(tensor.shape), tensor.dtype) for tensor in tensors),
            dataloader_idx=arguments.dataloader_idx,
            extra=self._strategy.conditions(self.step, arguments.batch_idx),
        )
        same = [step for step in self.steps if step.conditions == conditions]
        changes: List[Changed] = []
        for step in same:
            prepared = step.environments(environments)
            changed = step.first_change(prepared, arguments.others)
            if changed is None:
                return step, prepared
            if changed.mixed:
                raise Mixed(changed)
            changes.append(changed)
        outdated = [step for step in self.steps if step.conditions.extra != conditions.extra]
        for change in changes[:1]:
            self._tell(change)
            self._live |= change.live
            outdated += [step for step, other in zip(same, changes) if other.live]
        for step in dict.fromkeys(outdated):
            self._drop(step)
        if len(same) - len([step for step in same if step not in self.steps]) >= MOST_CAPTURES:
            raise self._strategy.lightning.misconfiguration(
                f"{self.step} was captured {MOST_CAPTURES} times, and needs another capture because {changes[-1].text}. On an IPU each "
                "capture is a compilation. Use the number in arithmetic with tensors, where it is an input of the step (loss * batch_idx, "
                "torch.where(...)), log it as a value instead of in a name, or move what depends on it into a hook such as "
                "on_train_batch_start."
            )
        captured = self._capture(arguments, piece, tensors, environments[0], conditions)
        prepared = captured.environments(environments)
        mixed = captured.first_change(prepared, arguments.others)
        if mixed is not None:
            raise Mixed(mixed)
        return captured, prepared

    def _capture(
        self, arguments: Arguments, piece: Piece, tensors: List[torch.Tensor], environment: Dict[Any, Any], conditions: Conditions
    ) -> CapturedStep:
        def grow(live: FrozenSet[Any], fixed: FrozenSet[Any]) -> Tuple[FrozenSet[Any], FrozenSet[Any]]:
            self._live, self._fixed = self._live | live, self._fixed | fixed
            return self._live, self._fixed

        self._refuse_other_shapes(arguments, conditions)
        cut = piece.cut
        joins = cut.n_replicas > 1 or (cut.is_one_group and cut.n_micro_batches > 1)
        call = Call(self.step, arguments.form, arguments.others, len(arguments.leaves), cut.micro_rows, cut.share, joins)
        try:
            captured = self._strategy.capturing.capture(self.step, call, piece.cut, tensors, environment, conditions, grow)
        except self._strategy.poptorch.Error as error:
            advice = self._advice_on(str(error))
            if advice is None:
                raise
            raise self._strategy.lightning.misconfiguration(f"{error} In Lightning's words: {advice}") from error
        self.steps.append(captured)
        for text in captured.warnings():
            if text not in self._told:
                self._told.add(text)
                self._strategy.lightning.warn(f"{self.step}: {text}")
        return captured

    def _advice_on(self, error: str) -> Optional[str]:
        """What to do about an error of PopTorch that names its Options."""
        if self.trains and "gradientAccumulation must be" in error:
            return (
                "a pipeline over IPUs needs Trainer(accumulate_grad_batches=...) of at least twice the number of its stages less one. Or "
                "run stage after stage: IPUStrategy(training_opts=poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution()))."
            )
        if "broadcastBuffers(False)" in error:
            options = "training_opts" if self.trains else "inference_opts"
            return (
                f"each replica would have its own value of the buffers that {self.step} changes, and the host gets the first one's. Change "
                "them in a hook such as on_train_batch_end, use devices=1, or allow it by "
                f"IPUStrategy({options}=poptorch.Options().broadcastBuffers(False))."
            )
        return None

    def _refuse_other_shapes(self, arguments: Arguments, conditions: Conditions) -> None:
        """Raises for a batch of the same make-up in which something else than the number of rows differs from the first batch."""
        places = paths(arguments.form)
        for step in self.steps:
            if step.conditions.form != conditions.form or step.conditions.dataloader_idx != conditions.dataloader_idx:
                continue
            for place, before, now in zip(arguments.tensors, step.conditions.shapes, conditions.shapes):
                if before[0][1:] != now[0][1:] or before[1] != now[1] or len(before[0]) != len(now[0]):
                    label = places[place].replace("[0]", "batch", 1)
                    raise self._strategy.lightning.misconfiguration(
                        f"{self.step} was compiled for {label} of shape {list(before[0])} and {before[1]}, and is given {list(now[0])} and "
                        f"{now[1]}. Programs of an IPU have fixed shapes: pad or crop every sample to one size, for instance in the "
                        "collate function."
                    )

    def _drop(self, step: CapturedStep) -> None:
        self.steps.remove(step)
        self._device.drop(step.compiled)

    def _tell(self, change: Changed) -> None:
        if change.subject in self._told:
            return
        self._told.add(change.subject)
        self._strategy.lightning.warn(
            f"{self.step} is captured again because {change.text}. On an IPU this is a compilation, often minutes."
            + (" From now on it is an input of the step." if change.live else "")
        )

    # What the host does after a call

    def _replay(
        self, captured: CapturedStep, results: Results, environments: List[Dict[Any, Any]], arguments: Arguments, *, is_whole: bool
    ) -> None:
        record, module = captured.record, self._strategy.lightning_module
        cut = results.cut
        for j, environment in enumerate(environments):
            which = cut.group(j)
            if record.notes:
                n_micro = which.stop - which.start
                rows = None if cut.micro_rows is None else cut.micro_rows * n_micro
                value_of = lambda index, which=which: results.joined(index, which)  # noqa: E731
                replay(record.notes, module, Group(value_of, environment, n_micro, rows, is_whole=is_whole))
            for growth in record.growths:
                grow_again(growth, [self._value(item, results, which, environment, arguments) for item in growth.items])
        for write in record.writes:
            last = len(environments) - 1
            newest = slice(cut.n_real - 1, cut.n_real)
            set_again(write, self._value(write.value, results, cut.group(last), environments[last], arguments, newest, made=write.is_made))

    def _value(
        self,
        value: Any,
        results: Results,
        which: slice,
        environment: Dict[Any, Any],
        arguments: Arguments,
        newest: Optional[slice] = None,
        *,
        made: bool = False,
    ) -> Any:
        """A value of the step on the host: of the micro-batches ``which``, and what has no rows of samples of the ``newest``."""

        def of_leaf(leaf: Any) -> Any:
            if isinstance(leaf, OutputOf):
                is_state = newest is not None and not results.is_scalar(leaf.index) and (made or not results.has_rows(leaf.index))
                return results.joined(leaf.index, newest if is_state and newest is not None else which)
            if is_host_value(leaf):
                return arguments.leaves[leaf._key]
            if isinstance(leaf, ResultOf):
                raise self._strategy.lightning.misconfiguration(
                    f"{self.step} returns or keeps the value of a metric. Metrics are computed on the host after the step, so log the "
                    "value, or compute it in a hook such as on_train_batch_end."
                )
            return evaluated(leaf, environment)

        return mapped(of_leaf, value)

    def _returned(self, done: List[Tuple[CapturedStep, Results, Dict[Any, Any]]], arguments: Arguments) -> Any:
        captured, results, environment = done[-1]
        cut = results.cut
        everything = slice(0, cut.n_real)
        last_batch = cut.group(cut.n_groups - 1) if self.trains else everything
        columns = [take_apart(step.record.returned)[0] for step, _, _ in done]
        alike = all(len(column) == len(columns[-1]) for column in columns)
        place = iter(range(len(columns[-1])))

        def of_leaf(leaf: Any) -> Any:
            position = next(place)
            if not isinstance(leaf, OutputOf):
                return self._value(leaf, results, last_batch, environment, arguments)
            if leaf.index == captured.record.loss:
                losses = self._losses_of_last_update(done)
                return losses.mean() if len(losses) > 1 else losses[0]
            if self.trains and results.is_scalar(leaf.index):
                return results.joined(leaf.index, last_batch)
            if not alike or len(done) == 1:
                return results.joined(leaf.index, everything)
            return whole([(r, slice(0, r.cut.n_real)) for _, r, _ in done], [column[position].index for column in columns])

        return mapped(of_leaf, captured.record.returned)

    def _losses_of_last_update(self, done: List[Tuple[CapturedStep, Results, Dict[Any, Any]]]) -> torch.Tensor:
        """Of all micro-batches that it is made of, [n]."""
        _, results, _ = done[-1]
        n_parts = round(results.cut.n_accumulated / results.cut.share) if results.cut.is_part else 1
        found = []
        for captured, results, _ in done[-n_parts:]:
            cut = results.cut
            assert captured.record.loss is not None
            found.append(results.micro_batches(captured.record.loss, slice(cut.n_real - cut.n_accumulated * cut.n_replicas, cut.n_real)))
        return torch.cat(found)
