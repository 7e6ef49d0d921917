"""Batches of every make-up, from loaders of every kind."""

import collections
import dataclasses
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler, WeightedRandomSampler

import lightning_ipu
from tests.lightning_ipu.trainer.oracle import ALONE, BATCH, TOGETHER, WAYS, Net, Side, Way, assert_same, data, on_both, pl, weights


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


@dataclasses.dataclass
class Sample:
    x: torch.Tensor
    y: torch.Tensor
    name: str = "sample"
    scale: int = 2


def stacked(samples):
    return torch.stack([x for x, _ in samples]), torch.stack([y for _, y in samples])


MAKE_UPS = {
    "list": (lambda samples: list(stacked(samples)), lambda batch: batch),
    "dict": (lambda samples: dict(zip("xy", stacked(samples))), lambda batch: (batch["x"], batch["y"])),
    "nested": (
        lambda samples: {"in": [stacked(samples)[0], {"deep": stacked(samples)[1]}], "none": None},
        lambda batch: (batch["in"][0], batch["in"][1]["deep"]),
    ),
    "named tuple": (lambda samples: Pair(*stacked(samples)), lambda batch: (batch.x, batch.y)),
    "dataclass": (lambda samples: Sample(*stacked(samples)), lambda batch: (batch.x * (batch.scale - 1), batch.y)),
    "mapping": (lambda samples: collections.OrderedDict(zip("xy", stacked(samples))), lambda batch: (batch["x"], batch["y"])),
    "words and numbers": (
        lambda samples: (*stacked(samples), [f"{i}.png" for i in range(len(samples))], 0.5, "train", True),
        lambda batch: (batch[0] * batch[3] * 2, batch[1]),
    ),
}


@pytest.mark.parametrize("way", [ALONE, TOGETHER], ids=str)
@pytest.mark.parametrize("make_up", list(MAKE_UPS))
def test_batch_of_make_up(make_up, way):
    collate, parts = MAKE_UPS[make_up]

    class Takes(Net):
        def loss(self, batch):
            return super().loss(parts(batch))

    def run(side):
        module = Takes()
        trainer = side.trainer(max_epochs=1)
        trainer.fit(module, side.loader(collate_fn=collate), side.loader(data(10), collate_fn=collate))
        return weights(module), float(trainer.callback_metrics["val_loss"])

    want, got = on_both(run, way)
    assert_same(got, want)


# With replicas, a batch of the CPU is that of all replicas, which collate apart, as processes do elsewhere.
@pytest.mark.parametrize("way", [*(way for way in WAYS if way.replicas == 1), Way(accumulated=2, iterations=2)], ids=str)
def test_a_collate_function_gets_the_samples_of_one_batch_of_the_cpu(way):
    def centred(samples):
        x, y = stacked(samples)
        return x - x.mean(dim=0), y

    def run(side):
        module = Net()
        side.trainer(max_epochs=1).fit(module, side.loader(collate_fn=centred))
        return weights(module)

    want, got = on_both(run, way)
    assert_same(got, want)


def test_a_number_in_the_batch_is_each_batchs_own():
    class Scaled(Net):
        def loss(self, batch):
            return super().loss(batch[:2]) * batch[2]

    def run(side):
        module = Scaled()
        side.trainer(max_epochs=1).fit(module, side.loader(collate_fn=lambda samples: (*stacked(samples), float(samples[0][0][0]))))
        return weights(module)

    want, got = on_both(run)
    assert_same(got, want)


class Streamed(IterableDataset):
    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Any:
        dataset = data(self.n)
        return (dataset[i] for i in range(self.n))


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_iterable_dataset(way):
    def run(side):
        module = Net()
        trainer = side.trainer(max_epochs=1)
        trainer.fit(module, side.loader(Streamed(48)), side.loader(Streamed(10)))
        return weights(module), float(trainer.callback_metrics["val_loss"]), trainer.global_step

    want, got = on_both(run, way)
    assert_same(got, want)


SAMPLERS = {
    "shuffled": lambda rows: {"shuffle": True},
    "own generator": lambda rows: {"sampler": RandomSampler(data(32), generator=torch.Generator().manual_seed(5))},
    "weighted": lambda rows: {"sampler": WeightedRandomSampler(list(range(1, 33)), 32, generator=torch.Generator().manual_seed(5))},
    "backwards": lambda rows: {"sampler": list(range(31, -1, -1))},
    "batch sampler": lambda rows: {"batch_sampler": BatchSampler(SequentialSampler(data(32)), rows, drop_last=False)},
}


@pytest.mark.parametrize("way", [Way(replicas=2), TOGETHER], ids=str)
@pytest.mark.parametrize("sampler", list(SAMPLERS))
def test_samples_come_in_the_order_of_the_users_sampler(sampler, way):
    def run(side):
        module = Net()
        rows = BATCH * (1 if side.is_ipu else way.replicas)
        arguments = SAMPLERS[sampler](rows)
        if "batch_sampler" not in arguments:
            arguments["batch_size"] = rows
        side.trainer().fit(module, DataLoader(data(32), **arguments))
        return weights(module)

    want, got = on_both(run, way)
    assert_same(got, want)


class Sums(Net):
    """Takes batches of several loaders, of which some may be None."""

    def training_step(self, batch, batch_idx):
        parts = batch.values() if isinstance(batch, dict) else batch
        return sum(self.loss(part) for part in parts if part is not None)


@pytest.mark.parametrize("mode", ["min_size", "max_size_cycle", "max_size"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_combined_loader(mode, replicas):
    def run(side):
        module = Sums()
        loaders = {"a": side.loader(data(32)), "b": side.loader(data(16, seed=3))}
        trainer = side.trainer()
        trainer.fit(module, pl.utilities.CombinedLoader(loaders, mode))
        return weights(module), trainer.global_step

    want, got = on_both(run, Way(replicas=replicas))
    assert_same(got, want)


@pytest.mark.parametrize(("first", "second"), [(64, 64), (50, 50), (64, 32)])
@pytest.mark.parametrize("mode", ["min_size", "max_size_cycle", "max_size"])
def test_combined_loader_with_several_updates_in_a_call(mode, first, second):
    def run(side):
        module = Sums()
        loaders = {"a": side.loader(data(first)), "b": side.loader(data(second, seed=3))}
        trainer = side.trainer()
        trainer.fit(module, pl.utilities.CombinedLoader(loaders, mode))
        return weights(module), trainer.global_step

    want, got = on_both(run, TOGETHER)
    assert_same(got, want)


@pytest.mark.parametrize(("first", "second"), [(32, 16), (64, 48), (50, 32)])
def test_loaders_of_other_lengths_that_no_call_takes_together_are_refused(first, second):
    side = Side("ipu", TOGETHER)
    loaders = {"a": side.loader(data(first)), "b": side.loader(data(second, seed=3))}
    with pytest.raises(Exception, match=r"batch\['a'\] \d+ rows of batch_size 4, batch\['b'\] \d+ rows of batch_size 4 for one host batch"):
        side.trainer().fit(Sums(), pl.utilities.CombinedLoader(loaders, "max_size_cycle"))


@pytest.mark.parametrize("way", [Way(iterations=4), Way(accumulated=2, iterations=2)], ids=str)
def test_a_last_host_batch_of_an_iterable_has_the_updates_of_the_cpu(way):
    batches = [tuple(data(4, seed=seed).tensors) for seed in range(6)]

    def run(side):
        module = Net()
        trainer = side.trainer()
        trainer.fit(module, Iterable(batches))
        return weights(module), trainer.global_step

    want, got = on_both(run, way)
    assert_same(got, want)


def test_an_iterable_with_batches_of_several_lengths_is_refused():
    batches = [tuple(data(n, seed=n).tensors) for n in (4, 2, 4, 2)]
    side = Side("ipu", Way(iterations=2))
    with pytest.raises(ValueError, match="gives batches of 4, then 2 rows.*only the last of an epoch may be shorter"):
        side.trainer().fit(Net(), Iterable(batches))


def test_list_of_loaders():
    def run(side):
        module = Sums()
        side.trainer().fit(module, [side.loader(data(32)), side.loader(data(16, seed=3))])
        return weights(module)

    want, got = on_both(run, Way(replicas=2))
    assert_same(got, want)


@pytest.mark.parametrize("mode", ["sequential", "max_size_cycle", "min_size"])
def test_combined_loader_in_validation(mode):
    class Validates(Net):
        def validation_step(self, batch, batch_idx, dataloader_idx=0):
            parts = batch if isinstance(batch[0], (list, tuple)) else [batch]
            for index, part in enumerate(parts):
                self.log(f"loss_{index}_{dataloader_idx}", self.loss(part), batch_size=len(part[0]), add_dataloader_idx=False)

    def run(side):
        loader = pl.utilities.CombinedLoader([side.loader(data(16)), side.loader(data(16, seed=3))], mode)
        return side.trainer().validate(Validates(), loader, verbose=False)

    want, got = on_both(run, Way(replicas=2))
    assert_same(got, want)


class Iterable:
    def __init__(self, batches: Any) -> None:
        self.batches = batches

    def __iter__(self) -> Any:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


def test_batches_that_are_no_loader_at_all():
    def run(side):
        module = Net()
        rows = BATCH * (1 if side.is_ipu else 2)
        x, y = data(32).tensors
        batches = [(x[i : i + rows], y[i : i + rows]) for i in range(0, 32, rows)]
        side.trainer().fit(module, Iterable(batches))
        return weights(module)

    want, got = on_both(run, Way(replicas=2))
    assert_same(got, want)


def test_a_dataset_that_batches_itself():
    class Batched(Dataset):
        def __init__(self, rows):
            self.rows = rows

        def __len__(self):
            return 32 // self.rows

        def __getitem__(self, i):
            return tuple(tensor[i * self.rows : (i + 1) * self.rows] for tensor in data(32).tensors)

    def run(side):
        module = Net()
        side.trainer().fit(module, DataLoader(Batched(BATCH * (1 if side.is_ipu else 2)), batch_size=None))
        return weights(module)

    want, got = on_both(run, Way(replicas=2))
    assert_same(got, want)


def test_a_poptorch_loader_is_used_as_it_is_and_the_options_are_reachable_from_hooks():
    seen = []

    class Own(Net):
        def train_dataloader(self):
            options = self.trainer.strategy.training_opts.clone()
            options.replicationFactor(2)
            seen.append(options.device_iterations)
            made = lightning_ipu.poptorch.DataLoader(options, data(32), batch_size=BATCH)
            seen.append(made)
            return made

        def on_train_batch_start(self, batch, batch_idx):
            seen.append(len(batch[0]))

    options = lightning_ipu.poptorch.Options().deviceIterations(2)
    module, side = Own(), Side("ipu", Way(replicas=2))
    trainer = side.trainer(max_epochs=1, strategy=lightning_ipu.IPUStrategy(training_opts=options))
    trainer.fit(module)
    assert trainer.train_dataloader is seen[1]
    assert (seen[0], seen[2:], trainer.global_step) == (2, [16, 16], 4)

    oracle, cpu = Net(), Side("cpu", Way(replicas=2))
    cpu.trainer(max_epochs=1).fit(oracle, cpu.loader())
    assert_same(weights(module), weights(oracle))


def test_a_poptorch_loader_for_other_sizes_is_refused_with_both_sizes():
    options = lightning_ipu.poptorch.Options().deviceIterations(4)
    loader = lightning_ipu.poptorch.DataLoader(options, data(32), batch_size=BATCH)
    with pytest.raises(Exception, match=r"deviceIterations\(4\).*Trainer needs 1, 1 and 1.*training_opts"):
        Side("ipu").trainer().fit(Net(), loader)


def test_a_batch_of_another_shape_is_refused_with_both_shapes():
    class Ragged(Dataset):
        def __len__(self):
            return 16

        def __getitem__(self, i):
            return torch.randn(6 if i < 8 else 7), torch.tensor(1)

    with pytest.raises(Exception, match=r"compiled for batch\[0\] of shape \[4, 6\].*given \[4, 7\].*pad or crop"):
        Side("ipu").trainer().fit(Net(), DataLoader(Ragged(), batch_size=BATCH))


def test_workers_keep_order_and_their_errors_name_the_users_line():
    class Broken(Dataset):
        def __len__(self):
            return 32

        def __getitem__(self, i):
            if i == 20:
                raise KeyError("sample 20 is broken")
            return data()[i]

    def run(side):
        module = Net()
        side.trainer().fit(module, side.loader(num_workers=2, persistent_workers=True, worker_init_fn=lambda i: torch.set_num_threads(1)))
        return weights(module)

    want, got = on_both(run, Way(replicas=2))
    assert_same(got, want)
    with pytest.raises(KeyError, match="sample 20 is broken"):
        Side("ipu").trainer().fit(Net(), DataLoader(Broken(), batch_size=BATCH, num_workers=1))


def test_module_losses_with_class_weights_on_its_own_device():
    class Weighted(Net):
        def loss(self, batch):
            factors = torch.tensor([1.0, 2.0, 0.5], device=self.device)
            return nn.functional.cross_entropy(self.body(batch[0]), batch[1], weight=factors)

    def run(side):
        module = Weighted()
        side.trainer().fit(module, side.loader())
        return weights(module)

    want, got = on_both(run)
    assert_same(got, want)
