"""Data sets whose size does not divide: nothing runs twice, nothing is left out in silence."""

import warnings

import pytest
import torch
from torch.utils.data import IterableDataset

from tests.lightning_ipu.trainer.oracle import ALONE, BATCH, TOGETHER, Net, Side, Way, assert_same, data, on_both, weights

SIZES = [1, 5, 31]


class Counts(Net):
    """Notes the sum of all rows that it has seen outside training."""

    def validation_step(self, batch, batch_idx):
        self.log("rows", float(len(batch[0])), reduce_fx="sum", batch_size=1)
        self.log("sum", batch[0].sum(), reduce_fx="sum")
        self.log("loss", self.loss(batch))

    test_step = validation_step


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("way", [Way(iterations=3), Way(4, 1, 2)], ids=str)
def test_every_sample_counts_once_outside_training(way, n):
    def run(side):
        (metrics,) = side.trainer().validate(Counts(), side.loader(data(n)), verbose=False)
        return metrics["sum"], metrics["loss"]

    want, got = on_both(run, way)
    assert_same(got, want)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("way", [Way(iterations=3), Way(4, 1, 2)], ids=str)
def test_every_sample_is_predicted_once(way, n):
    def run(side):
        return torch.cat(side.trainer().predict(Net(), side.loader(data(n))))

    want, got = on_both(run, way)
    assert_same(got, want)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("iterations", [1, 4])
def test_a_short_rest_is_trained_on_where_one_ipu_makes_an_update_of_it(iterations, n):
    def run(side):
        module = Net()
        trainer = side.trainer()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            trainer.fit(module, side.loader(data(n)))
        assert not any("dropped" in str(one.message) for one in seen)
        return weights(module), trainer.global_step

    want, got = on_both(run, Way(iterations=iterations))
    assert_same(got, want)


RESTS = [
    *((Way(replicas=2), rest) for rest in (1, 4, 5, 6)),
    *((Way(4, 1, 2), rest) for rest in (7, 8, 13, 14)),
    *((Way(accumulated=3), rest) for rest in (3, 4, 6, 8)),
    *((TOGETHER, rest) for rest in (6, 7, 8, 12)),
]


@pytest.mark.parametrize("way, rest", RESTS, ids=str)
def test_a_rest_makes_the_cpus_update_or_is_dropped_with_one_warning_that_counts_it(way, rest):
    whole = 2 * way.update_rows
    module, side = Net(), Side("ipu", way)
    trainer = side.trainer()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        trainer.fit(module, side.loader(data(whole + rest)))
    told = [str(one.message) for one in seen if "dropped" in str(one.message)]

    batch = BATCH * way.replicas
    fits = rest % batch == 0 or (rest < batch and (rest < BATCH or any(rest % size == 0 for size in range(2, BATCH + 1))))
    assert len(told) == (0 if fits else 1)
    assert fits or told[0].startswith(f"{rest} of {whole + rest} samples are dropped in every epoch")
    oracle, cpu = Net(), Side("cpu", way)
    expected = cpu.trainer()
    expected.fit(oracle, cpu.loader(torch.utils.data.Subset(data(whole + rest), range(whole + (rest if fits else 0)))))
    assert_same(weights(module), weights(oracle))
    assert trainer.global_step == expected.global_step


def test_whole_updates_of_a_short_last_call_are_made():
    way = Way(2, 1, 4)  # a call takes 32 rows

    def run(side):
        module = Net()
        trainer = side.trainer()
        trainer.fit(module, side.loader(data(56)))
        return weights(module), trainer.global_step

    want, got = on_both(run, way)
    assert want[1] == 2 * 7
    assert_same(got, want)


@pytest.mark.parametrize("way", [Way(replicas=2), Way(iterations=4)], ids=str)
def test_drop_last_is_the_users(way):
    def run(side):
        module = Net()
        trainer = side.trainer()
        trainer.fit(module, side.loader(data(35), drop_last=True), side.loader(data(17), drop_last=True))
        return weights(module), trainer.global_step, float(trainer.callback_metrics["val_loss"])

    want, got = on_both(run, way)
    assert_same(got, want)


def test_fewer_samples_than_one_update_are_an_error_that_says_what_an_update_takes():
    side = Side("ipu", Way(4, 2, 1))
    with pytest.warns(UserWarning, match=r"all 20 samples|20 of 20 samples are dropped"):
        trainer = side.trainer()
        trainer.fit(Net(), side.loader(data(20)))
    assert trainer.global_step == 0


class Streamed(IterableDataset):
    def __iter__(self):
        dataset = data(23)
        return (dataset[i] for i in range(23))


def test_the_rest_of_a_stream_is_trained_on_or_told():
    def run(side):
        module = Net()
        trainer = side.trainer()
        trainer.fit(module, side.loader(Streamed()))
        return weights(module), trainer.global_step

    want, got = on_both(run, ALONE)
    assert_same(got, want)

    side = Side("ipu", Way(replicas=2))
    with pytest.warns(UserWarning, match="7 samples are dropped at the end of this epoch"):
        side.trainer(max_epochs=1).fit(Net(), side.loader(Streamed()))


@pytest.mark.parametrize("limit", [1, 2, 0.5])
def test_limited_batches_count_host_batches(limit):
    way = Way(iterations=2)
    side = Side("ipu", way)
    trainer = side.trainer(max_epochs=1, limit_train_batches=limit, limit_val_batches=limit)
    module = Net()
    trainer.fit(module, side.loader(data(32)), side.loader(data(32)))
    calls = limit if isinstance(limit, int) else 2
    assert (trainer.num_training_batches, trainer.global_step) == (calls, calls * 2)

    oracle, cpu = Net(), Side("cpu", way)
    n_rows = calls * 2 * BATCH
    other = cpu.trainer(max_epochs=1)
    other.fit(
        oracle, cpu.loader(torch.utils.data.Subset(data(32), range(n_rows))), cpu.loader(torch.utils.data.Subset(data(32), range(n_rows)))
    )
    assert_same(weights(module), weights(oracle))
    assert_same(trainer.callback_metrics["val_loss"], other.callback_metrics["val_loss"])
