"""A captured step with the conditions under which it may be used."""

from dataclasses import dataclass
from typing import Any, Dict, FrozenSet, List, Optional, Sequence, Tuple

import torch

from lightning_ipu.live.numbers import evaluated, is_live
from lightning_ipu.step.device import CompiledStep
from lightning_ipu.step.reads import Read, Reads
from lightning_ipu.step.step_module import Captured
from lightning_ipu.structures.outputs import Cut
from lightning_ipu.structures.structure import Form


@dataclass(frozen=True)
class Conditions:
    """What a step is compiled for, whatever the values: structure, shapes, cut, loader, and what the strategy adds."""

    form: Form
    cut: Tuple[int, int, int, float, bool]
    shapes: Tuple[Any, ...]
    dataloader_idx: int
    extra: Any


@dataclass(frozen=True)
class Changed:
    """Why a captured step cannot be used for a call.

    Attributes:
        text: what changed, as the second half of a sentence.
        subject: the same for all changes of one thing.
        live: keys of numbers that are to be inputs from now on.
        mixed: it holds for some micro-batches of the call and not for others.
    """

    text: str
    subject: str
    live: FrozenSet[Any] = frozenset()
    mixed: bool = False


class CapturedStep:
    """A compiled step and its record.

    Args:
        compiled: executor and module.
        record: what the capture found.
        conditions: see there.
        others: arguments of the capture that were no tensors.
        n_slots: live inputs of each kind.
    """

    def __init__(self, compiled: CompiledStep, record: Captured, conditions: Conditions, others: Dict[int, Any], n_slots: int) -> None:
        self.compiled, self.record, self.conditions = compiled, record, conditions
        self._others, self._n_slots = others, n_slots
        self._reads = Reads(record.reads)
        self._counted = [write for write in record.writes if is_live(write.value)]
        self._no_numbers: Dict[int, Tuple[torch.Tensor, torch.Tensor]] = {}

    def environments(self, groups: Sequence[Dict[Any, Any]]) -> List[Dict[Any, Any]]:
        """``groups`` with the module's own live numbers, which change from group to group as the step would change them."""
        if not self.record.live_sources:
            return list(groups)
        current = {key: read() for key, read in self.record.live_sources.items()}
        found = []
        for group in groups:
            environment = {**group, **current}
            found.append(environment)
            for write in self._counted:
                current[("attribute", id(write.owner), write.name)] = evaluated(write.value, environment)
        return found

    def first_change(self, environments: Sequence[Dict[Any, Any]], others: Dict[int, Any]) -> Optional[Changed]:
        """The first condition that does not hold, or None."""
        changed = self._reads.first_changed()
        if changed is not None:
            return _of_read(changed)
        for guard in self.record.guards:
            answers = [guard.ask(environment) for environment in environments]
            wrong = [answer for answer in answers if answer is not guard.answer and answer != guard.answer]
            if wrong:
                names = " and ".join(guard.names)
                where = f" ({guard.place})" if guard.place is not None else ""
                text = f"a value that depends on {names}{where} is {wrong[0]!r} now, and was {guard.answer!r} when the step was captured"
                return Changed(text, f"{names}{where}", mixed=any(answer != wrong[0] for answer in answers))
        for place in self.record.looked_at:
            if others.get(place) is not self._others[place] and others.get(place) != self._others[place]:
                return Changed(
                    "the step looks at a value of the batch that is no tensor, and that value is another one now", f"batch value {place}"
                )
        return None

    def inputs(self, environments: Sequence[Dict[Any, Any]], cut: Cut) -> Tuple[torch.Tensor, torch.Tensor]:
        """The live numbers of all micro-batches: whole ones and floating ones, [rows, slots] each."""
        n = cut.n_micro_batches
        whole, floats = self.record.slots
        if not whole and not floats:
            if n not in self._no_numbers:
                self._no_numbers[n] = no_numbers(n, self._n_slots)
            return self._no_numbers[n]
        made = no_numbers(n, self._n_slots)
        for j, environment in enumerate(environments):
            rows = cut.places(j)
            for bank, expressions in zip(made, (whole, floats)):
                for slot, expression in enumerate(expressions):
                    bank[rows, slot] = expression(environment)
        return made

    def warnings(self) -> List[str]:
        """What the user should know about this capture."""
        found = []
        for names, place in self.record.texts:
            found.append(
                f"{' and '.join(names)} is made into text{f' ({place})' if place is not None else ''}. On an IPU the Python of a step runs "
                "only when it is captured, so the text stays what it was then. Print, and make names and "
                "files, in a hook such as on_train_batch_end; log numbers as values: self.log(name, number)."
            )
        for place in self.record.loggers:
            found.append(
                f"it uses self.logger ({place}). On an IPU its Python runs only when it is captured, so what the logger gets appears "
                "once. Use self.log(...), or give it to the logger in a hook such as on_train_batch_end."
            )
        if self.record.drawn_from:
            found.append(
                f"the step draws from {' and '.join(self.record.drawn_from)}. On an IPU its Python runs only when it is captured, so the "
                "number stays what it was then. Use torch.rand or another random operation of torch, or draw in the data set or in "
                "on_after_batch_transfer and put the number into the batch."
            )
        return found


def no_numbers(n_micro_batches: int, n_slots: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """Inputs for live numbers, all zero."""
    return torch.zeros(n_micro_batches, n_slots, dtype=torch.int32), torch.zeros(n_micro_batches, n_slots)


def _of_read(read: Read) -> Changed:
    now = read.current()
    where = f" ({read.place})" if read.place is not None else ""
    is_number = type(now) in (int, float) and read.fingerprint[0] in (int, float)
    values = f" changed from {read.fingerprint[1]!r} to {now!r}" if type(now) in (bool, int, float, str) else " changed"
    return Changed(
        f"{read.label}{where}{values} after the step was captured", read.label, frozenset([read.key]) if is_number else frozenset()
    )
