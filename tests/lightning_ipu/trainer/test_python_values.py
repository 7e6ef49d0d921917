"""Python values that a step reads are never frozen in silence: live inputs, or another capture with one warning."""

import math
import random
import warnings
from math import cos as cosine

import numpy as np
import pytest
import torch

from tests.lightning_ipu.trainer.oracle import ALONE, TOGETHER, Memory, Net, Side, Way, assert_same, data, numbers, on_both, weights


def compared(kind, way=ALONE, n=32, **flags):
    def run(side):
        module = kind()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            side.trainer(**flags).fit(module, side.loader(data(n)))
        return weights(module), [str(one.message) for one in seen if "captured again" in str(one.message)]

    want, got = on_both(run, way)
    assert_same(got[0], want[0])
    return got[1]


@pytest.mark.parametrize("way", [ALONE, Way(iterations=4), Way(2, 1, 2), Way(accumulated=2)], ids=str)
def test_numbers_of_the_loop_are_inputs(way):
    class Reads(Net):
        def training_step(self, batch, batch_idx):
            decay = 0.9**self.trainer.global_step
            return super().training_step(batch, batch_idx) * (1 + 0.1 * batch_idx + self.current_epoch) * decay

    assert compared(Reads, way) == []


def test_a_thousand_values_of_batch_idx_are_one_capture():
    class Reads(Net):
        n_captures = 0

        def training_step(self, batch, batch_idx):
            Reads.n_captures += 1
            return super().training_step(batch, batch_idx) * (1 + 0.001 * batch_idx)

    side = Side("ipu")
    trainer = side.trainer(max_epochs=1)
    trainer.fit(Reads(), side.loader(data(1000), batch=1))
    assert (trainer.global_step, Reads.n_captures) == (1000, 1)


CONVERSIONS = {
    "float": lambda module, i: float(i) * 0.1,
    "int": lambda module, i: int(i * 0.7),
    "exp": lambda module, i: math.exp(-0.1 * i),
    "imported": lambda module, i: cosine(i / 10),
    "numpy": lambda module, i: np.exp(-0.1 * i) + np.clip(i, 0, 3),
    "tensor": lambda module, i: torch.tensor(i) + torch.tensor([float(i), 1.0]).sum(),
    "full": lambda module, i: torch.full((1,), fill_value=i).sum(),
    "progress": lambda module, i: min(1.0, float(i) / 64) if i < 1e6 else 0.0,
    "step": lambda module, i: 0.5 * (1 + math.cos(math.pi * module.global_step / 64)) + float(module.current_epoch),
    "row": lambda module, i: module.table[i % 3],
    "operators": lambda module, i: (torch.ones(()) + i) * 0.1 - (i - torch.ones(())) * 0.2 + torch.sub(torch.ones(()), i),
    "divmod": lambda module, i: divmod(i, 3)[1] + round(i / 3, 1) + i // 2,
}


@pytest.mark.parametrize("way", [ALONE, TOGETHER], ids=str)
@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions_of_a_number_are_done_anew_for_every_batch(name, way):
    class Converts(Net):
        n_captures = 0

        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.tensor([0.5, 1.0, 2.0]))

        def training_step(self, batch, batch_idx):
            Converts.n_captures += 1
            weight = CONVERSIONS[name](self, batch_idx)
            self.log("weight", weight, on_step=True, on_epoch=True)
            return self.loss(batch) * (1 + 0.02 * weight)

    def run(side):
        Converts.n_captures = 0
        module, memory = Converts(), Memory()
        trainer = side.trainer(logger=memory, log_every_n_steps=1)
        trainer.fit(module, side.loader(data(64)))
        return weights(module), [line for line in memory.lines if "weight_epoch" in line[1]], Converts.n_captures

    want, got = on_both(run, way)
    assert_same(got[:2], want[:2])
    # One attempt finds out that names are to be replaced.
    assert got[2] <= 2


@pytest.mark.parametrize("way", [ALONE, Way(2, 1, 4)], ids=str)
def test_a_branch_on_a_number_is_captured_for_each_answer(way):
    class Branches(Net):
        n_captures = 0

        def training_step(self, batch, batch_idx):
            Branches.n_captures += 1
            loss = super().training_step(batch, batch_idx)
            return loss * 0.5 if batch_idx % 4 == 0 and self.current_epoch > 0 else loss

    told = compared(Branches, way, n=64, max_epochs=4)
    assert len(told) <= 2
    assert "test_python_values.py" in told[0] and "compilation" in told[0]
    assert Branches.n_captures <= 8 + 64 * 4  # the CPU runs it each time


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("way", [Way(accumulated=4), Way(2, 3, 1), Way(2, 3, 2)], ids=str)
def test_micro_batches_of_one_update_may_take_several_branches(optimizer, way):
    class Branches(Net):
        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            if batch_idx % 5 == 0:
                self.log("some", loss, on_step=True, on_epoch=True)
                loss = loss * 3
            return loss

        def configure_optimizers(self):
            if optimizer == "SGD":
                return super().configure_optimizers()
            return torch.optim.AdamW(self.parameters(), lr=0.01, eps=1e-4)

    def run(side):
        module, memory = Branches(), Memory()
        trainer = side.trainer(max_epochs=3, gradient_clip_val=0.8, log_every_n_steps=1, logger=memory)
        trainer.fit(module, side.loader(data(136)))
        epochs = [line for line in memory.lines if "some_epoch" in line[1]]
        return weights(module), trainer.global_step, numbers(trainer.callback_metrics), epochs

    want, got = on_both(run, way)
    assert_same(got, want)


def test_branches_within_an_update_are_told_once_with_their_line():
    class Branches(Net):
        def training_step(self, batch, batch_idx):
            return self.loss(batch) * (2 if batch_idx % 3 == 1 else 1)

    side = Side("ipu", Way(accumulated=4))
    with pytest.warns(UserWarning, match=r"batch_idx \(.*test_python_values.py.*micro-batches of one weight update.*one by one") as caught:
        side.trainer().fit(Branches(), side.loader(data(64)))
    assert len([one for one in caught if "of one weight update" in str(one.message)]) == 1


def test_an_attribute_that_a_callback_sets_is_told_once_and_then_an_input():
    class Warms(Net):
        beta = 0.0

        def on_train_batch_start(self, batch, batch_idx):
            self.beta = min(1.0, self.beta + 0.05)

        def training_step(self, batch, batch_idx):
            return super().training_step(batch, batch_idx) + self.beta * self.body[0].weight.pow(2).sum()

    told = compared(Warms)
    assert len(told) == 1
    assert "self.beta" in told[0] and "test_python_values.py:" in told[0] and "From now on it is an input" in told[0]


def test_an_attribute_that_the_step_counts_up():
    class Counts(Net):
        def __init__(self):
            super().__init__()
            self.n = 0

        def training_step(self, batch, batch_idx):
            self.n += 1
            return super().training_step(batch, batch_idx) * (1 + 0.1 * self.n)

    for way in (ALONE, Way(iterations=4)):
        assert compared(Counts, way) == []


def test_a_switch_that_a_hook_turns_is_told_with_its_name():
    class Switched(Net):
        is_on = False

        def on_train_epoch_start(self):
            self.is_on = self.current_epoch == 1

        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            return loss * 3 if self.is_on else loss

    told = compared(Switched, TOGETHER, max_epochs=3)
    assert len(told) == 1
    assert "self.is_on" in told[0] and "from False to True" in told[0]


def test_attributes_of_parts_count_too():
    class Part(torch.nn.Linear):
        scale = 1.0

        def forward(self, x):
            return super().forward(x) * self.scale

    class Outer(Net):
        def __init__(self):
            super().__init__()
            part = Part(6, 8)
            part.load_state_dict(self.body[0].state_dict())
            self.body[0] = part

        def on_train_batch_start(self, batch, batch_idx):
            self.body[0].scale = 1.0 + 0.1 * batch_idx

    told = compared(Outer)
    assert len(told) == 1 and "self.body.0.scale" in told[0]


def test_a_dropout_rate_that_changes_reaches_the_device():
    class Drops(Net):
        def __init__(self):
            super().__init__()
            self.drop = torch.nn.Dropout(0.0)

        def on_train_epoch_start(self):
            self.drop.p = 0.0 if self.current_epoch == 0 else 1.0

        def training_step(self, batch, batch_idx):
            x, y = batch
            return torch.nn.functional.cross_entropy(self.body(self.drop(x)), y)

    assert len(compared(Drops)) == 1


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_numbers_are_live_in_other_stages(stage):
    class Reads(Net):
        def predict_step(self, batch, batch_idx):
            return self.body(batch[0]) * batch_idx

        def validation_step(self, batch, batch_idx):
            self.log("loss", self.loss(batch) * batch_idx)

        test_step = validation_step

    def run(side):
        got = getattr(side.trainer(), stage)(Reads(), side.loader(data(20)))
        return torch.cat(got) if stage == "predict" else got

    want, got = on_both(run, Way(iterations=2))
    assert_same(got, want)


def test_a_step_that_asks_something_new_every_time_is_refused_in_the_end():
    class Asks(Net):
        def training_step(self, batch, batch_idx):
            return super().training_step(batch, batch_idx) * float(f"{int(batch_idx)}.5")

    side = Side("ipu")
    with pytest.raises(Exception, match="captured 16 times.*batch_idx.*Use the number in arithmetic"):
        side.trainer().fit(Asks(), side.loader(data(100)))


def test_a_print_says_once_that_it_will_not_be_repeated(capsys):
    class Prints(Net):
        def training_step(self, batch, batch_idx):
            print("batch", batch_idx)
            return super().training_step(batch, batch_idx)

    side = Side("ipu")
    with pytest.warns(UserWarning, match="batch_idx is made into text"):
        side.trainer().fit(Prints(), side.loader())
    assert capsys.readouterr().out.count("batch 0") == 1


def test_pythons_random_numbers_are_told():
    class Draws(Net):
        def training_step(self, batch, batch_idx):
            return super().training_step(batch, batch_idx) * random.random()

    side = Side("ipu")
    with pytest.warns(UserWarning, match="draws from Python's random module.*torch.rand"):
        side.trainer(max_epochs=1).fit(Draws(), side.loader())


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (lambda module: np.random.beta(1.0, 1.0), "NumPy's random module"),
        (lambda module: module.generator.random(), "self.generator"),
        (lambda module: module.dice.random(), "self.dice"),
    ],
)
def test_numbers_drawn_on_the_host_are_told(draw, name):
    class Mixes(Net):
        def __init__(self):
            super().__init__()
            self.generator, self.dice = np.random.default_rng(0), random.Random(0)

        def training_step(self, batch, batch_idx):
            return draw(self) * self.loss(batch)

    with pytest.warns(UserWarning, match=f"draws from {name}.*put the number into the batch"):
        Side("ipu").trainer(max_steps=1).fit(Mixes(), Side("ipu").loader())


def test_names_and_numbers_made_of_text_are_those_of_the_moment():
    class Names(Net):
        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            self.log(f"loss_{batch_idx % 2}", loss, on_step=False, on_epoch=True)
            self.log(
                "epoch_as_text",
                float(f"{self.current_epoch}.5"),
            )
            return loss

    def run(side):
        trainer = side.trainer()
        trainer.fit(Names(), side.loader())
        return numbers(trainer.callback_metrics)

    want, got = on_both(run)
    assert_same(got, want)
    assert want["epoch_as_text"] == 1.5 and want["loss_0"] != want["loss_1"]


def test_what_is_given_to_a_logger_in_a_step_is_told_to_appear_once():
    class Logs(Net):
        def training_step(self, batch, batch_idx):
            self.logger.log_metrics({"number": 1.0}, step=0)
            return self.loss(batch)

    side = Side("ipu")
    with pytest.warns(UserWarning, match=r"uses self.logger \(.*test_python_values.py:\d+\).*appears once. Use self.log"):
        side.trainer(logger=Memory(), max_steps=2).fit(Logs(), side.loader())


def test_a_state_in_a_tuple_that_lives_from_step_to_step_is_refused_with_a_way_out():
    class Carries(Net):
        def __init__(self):
            super().__init__()
            self.state = None

        def training_step(self, batch, batch_idx):
            hidden = self.body[0](batch[0])
            if self.state is not None:
                hidden = hidden + self.state[0]
            self.state = (hidden.detach(), hidden.detach() * 2)
            return torch.nn.functional.cross_entropy(self.body[2](hidden), batch[1])

    side = Side("ipu")
    with pytest.raises(Exception, match=r"reads self.state .* sets it to a tuple with tensors.*register_buffer\('state', \.\.\.\)"):
        side.trainer().fit(Carries(), side.loader())


def test_a_run_leaves_tensors_what_they_were():
    Side("ipu").trainer(max_steps=1).fit(Net(), Side("ipu").loader())
    # A tensor class that ever had a __getitem__ of its own is a sequence from then on, and lists of scalars make no tensor any more.
    assert torch.tensor([torch.ones(()), torch.zeros(())]).tolist() == [1.0, 0.0]
