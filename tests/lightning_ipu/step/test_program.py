"""The Python of a step: what it reads is never frozen in silence, what it does is done for every batch."""

import random
import warnings

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lightning_ipu import IPUStrategy

QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 2)

    def loss(self, batch):
        return F.mse_loss(self.lin(batch[0]), batch[1])

    def training_step(self, batch, batch_idx):
        return self.loss(batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.5)


def loader(n=32):
    generator = torch.Generator().manual_seed(2)
    return DataLoader(TensorDataset(torch.randn(n, 4, generator=generator), torch.randn(n, 2, generator=generator)), batch_size=4)


def fit(make, accelerator="ipu", iterations=1, epochs=2, batches=None):
    torch.manual_seed(1)
    net = make()
    strategy = IPUStrategy(device_iterations=iterations) if accelerator == "ipu" else "auto"
    trainer = pl.Trainer(accelerator=accelerator, devices=1, strategy=strategy, max_epochs=epochs, **QUIET)
    n_captures = Captures(trainer)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.fit(net, batches or loader())
    net.warned = [str(w.message) for w in caught if "captured again" in str(w.message) or "one by one" in str(w.message)]
    net.n_captures = n_captures.count
    return net


class Captures(pl.Callback):
    """Counts the compilations of a run."""

    def __init__(self, trainer):
        self.count = 0
        trainer.callbacks.append(self)

    def on_train_batch_end(self, trainer, module, *args):
        programs = getattr(trainer.strategy, "_programs", {})
        self.count = max(self.count, sum(len(program.steps) for program in programs.values()))


def assert_as_on_the_cpu(make, **how):
    got, want = fit(make, **how), fit(make, "cpu", epochs=how.get("epochs", 2))
    torch.testing.assert_close(got.lin.weight, want.lin.weight, rtol=1e-5, atol=1e-6)
    return got, want


class ByIndex(Net):
    def training_step(self, batch, batch_idx):
        return self.loss(batch) * (1 + batch_idx / 4 + self.current_epoch + self.global_step * 0.1)


class ByTensor(Net):
    def training_step(self, batch, batch_idx):
        return self.loss(batch) * torch.tensor(batch_idx, dtype=torch.float32)


class Branch(Net):
    def training_step(self, batch, batch_idx):
        return self.loss(batch) if batch_idx % 3 else 2 * self.loss(batch)


class WarmUp(Net):
    def training_step(self, batch, batch_idx):
        return self.loss(batch) * min(1.0, (self.trainer.global_step + 1) / 6)


class Counter(Net):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def training_step(self, batch, batch_idx):
        self.calls += 1
        return self.loss(batch) * (1 + 0.01 * self.calls)


@pytest.mark.parametrize("make", [ByIndex, ByTensor, Counter])
@pytest.mark.parametrize("iterations", [1, 4])
def test_numbers_in_arithmetic_are_inputs_and_cost_no_capture(make, iterations):
    got, want = assert_as_on_the_cpu(make, iterations=iterations)
    assert got.n_captures == 1
    assert got.warned == []
    assert getattr(got, "calls", None) == getattr(want, "calls", None)


@pytest.mark.parametrize("make", [Branch, WarmUp])
@pytest.mark.parametrize("iterations", [1, 4])
def test_branches_are_captured_once_each(make, iterations):
    got, _ = assert_as_on_the_cpu(make, iterations=iterations, epochs=3)
    # Each way once, and once more for single device iterations where a call holds both.
    assert got.n_captures <= 2 * (1 if iterations == 1 else 2)
    assert any("test_program.py:" in text and "compilation" in text for text in got.warned)


def test_a_thousand_batches_are_one_capture():
    got = fit(ByIndex, epochs=1, batches=loader(4000))
    assert got.n_captures == 1


class Annealed(Net):
    def __init__(self):
        super().__init__()
        self.beta = 0.0
        self.mode = "plain"

    def on_train_epoch_start(self):
        self.beta = 0.3 * self.current_epoch
        self.mode = "plain" if self.current_epoch < 3 else "double"

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch) + self.beta * self.lin.weight.pow(2).sum()
        return 2 * loss if self.mode == "double" else loss


def test_a_changed_attribute_is_one_warning_that_names_it():
    got, _ = assert_as_on_the_cpu(Annealed, epochs=5)
    about_beta = [text for text in got.warned if "self.beta" in text]
    assert len(about_beta) == 1
    assert "changed from 0.0 to 0.3" in about_beta[0]
    assert "test_program.py:" in about_beta[0]
    assert "From now on it is an input" in about_beta[0]
    assert len([text for text in got.warned if "self.mode" in text]) == 1


class DropoutRate(Net):
    """A number that PyTorch does not take as an input."""

    def __init__(self):
        super().__init__()
        self.rate = 0.0
        self.options = {"scale": 1.0}

    def on_train_epoch_start(self):
        self.options["scale"] = 1.0 + self.current_epoch

    def training_step(self, batch, batch_idx):
        self.rate = self.rate * 1.0
        return self.loss((F.dropout(batch[0], p=self.rate), batch[1])) * self.options["scale"]


def test_values_that_cannot_be_inputs_are_guarded():
    assert_as_on_the_cpu(DropoutRate, epochs=3)


class Unbounded(Net):
    def training_step(self, batch, batch_idx):
        return self.loss((F.dropout(batch[0], p=batch_idx / 1000), batch[1]))


def test_a_step_that_would_be_captured_for_every_batch_is_refused():
    with pytest.raises(MisconfigurationException, match="was captured 16 times.*because a value that depends on batch_idx"):
        fit(Unbounded, epochs=1, batches=loader(200))


class SideEffects(Net):
    def __init__(self):
        super().__init__()
        self.seen, self.by_batch, self.last = [], {}, None

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.seen.append((batch_idx, loss.detach()))
        self.last = loss.detach()
        return loss


@pytest.mark.parametrize("iterations", [1, 4])
def test_lists_grow_and_attributes_are_set_for_every_batch(iterations):
    got, want = fit(SideEffects, iterations=iterations), fit(SideEffects, "cpu")
    assert [index for index, _ in got.seen] == [index for index, _ in want.seen]
    ours, theirs = (torch.stack([loss for _, loss in net.seen]) for net in (got, want))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(got.last, want.last, rtol=1e-5, atol=1e-6)
    assert got.n_captures == 1


class State(Net):
    def __init__(self):
        super().__init__()
        self.average = torch.zeros(())

    def training_step(self, batch, batch_idx):
        self.average = 0.9 * self.average + 0.1 * self.loss(batch)
        return self.average


class LateState(State):
    def __init__(self):
        super().__init__()
        del self.average

    def training_step(self, batch, batch_idx):
        self.average = getattr(self, "average", torch.zeros(())) + self.loss(batch)
        return self.average


@pytest.mark.parametrize("make", [State, LateState])
def test_state_in_a_plain_tensor_is_refused_with_the_way_out(make):
    with pytest.raises(MisconfigurationException, match="self.average.*self.register_buffer"):
        fit(make)


class Reordered(Net):
    def __init__(self):
        super().__init__()
        self.queue = [1, 2, 3]

    def training_step(self, batch, batch_idx):
        self.queue.append(self.queue.pop(0))
        return self.loss(batch)


def test_changes_that_cannot_be_repeated_are_refused():
    with pytest.raises(MisconfigurationException, match="changes self.queue in place"):
        fit(Reordered)


class Lottery(Net):
    def training_step(self, batch, batch_idx):
        return self.loss(batch) * random.random()


class Printing(Net):
    def training_step(self, batch, batch_idx):
        self.text = f"batch {batch_idx}"
        return self.loss(batch)


@pytest.mark.parametrize(("make", "message"), [(Lottery, "draws from Python's random module"), (Printing, "batch_idx is made into text")])
def test_what_happens_only_once_is_said(make, message):
    trainer = pl.Trainer(accelerator="ipu", devices=1, max_epochs=1, **QUIET)
    with pytest.warns(UserWarning, match=message):
        trainer.fit(make(), loader())


def test_batches_of_other_shapes_are_refused_with_both_shapes():
    class Batches:
        def __iter__(self):
            return iter([[torch.ones(4, width), torch.ones(4, 2)] for width in (4, 3)])

        def __len__(self):
            return 2

    with pytest.raises(MisconfigurationException, match=r"compiled for batch\[0\] of shape \[4, 4\].*is given \[4, 3\]"):
        fit(Net, batches=Batches())


def test_nothing_is_left_of_watching_afterwards():
    got = fit(Counter)
    assert type(got) is Counter
    assert type(got.lin) is nn.Linear
    assert "log" not in vars(got)
    assert type(got.calls) is int
