"""Reasons of a search, grouped."""

from types import SimpleNamespace

from softipu.planner.choice import Choice
from softipu.planner.fallen import FallenChoices
from softipu.planner.splitter import Split

MIB = 1 << 20


def choice(micro_batch, *, off_chip=True, pipelined=True):
    return Choice(micro_batch, 4, 1, off_chip, 0.2, Split((), 1.0, (1.0,), pipelined=pipelined))


def overflowing(fraction):
    worst = SimpleNamespace(worst_tile_bytes=fraction * 100, tile_available_bytes=100, total=SimpleNamespace(total=947 * MIB), ipu=3)
    return SimpleNamespace(worst_ipu=worst)


def lines(fallen):
    return [(line.what, line.why) for line in fallen.lines()]


def test_batches_that_do_not_divide_the_wanted_one_are_one_line():
    fallen = FallenChoices()
    for each in (16, 48, 32, 32):
        fallen.no_multiple(1000, each)
    assert lines(fallen) == [("micro-batch x replicas 16, 32, 48", "1,000 items per update are no multiple of that")]


def test_pipelines_that_cannot_be_filled_are_one_line_for_each_number_of_ipus():
    fallen = FallenChoices()
    fallen.cannot_fill(8, 64, 16, 17)
    fallen.cannot_fill(8, 128, 8, 17)
    fallen.cannot_fill(16, 64, 16, 33)
    assert lines(fallen) == [
        (
            "8 IPUs a replica, micro-batch x replicas 64, 128",
            "16 micro-batches per update or fewer cannot fill the pipeline, which needs 17",
        ),
        ("16 IPUs a replica, micro-batch x replicas 64", "16 micro-batches per update cannot fill the pipeline, which needs 33"),
    ]


def test_splits_that_overflow_are_one_line_with_the_one_that_needs_least():
    fallen = FallenChoices()
    fallen.no_split_fits(choice(8), overflowing(1.2))
    fallen.no_split_fits(choice(4), overflowing(1.05))
    fallen.no_split_fits(choice(4, off_chip=False, pipelined=False), overflowing(1.5))
    assert lines(fallen) == [
        (
            "4 IPUs a replica, micro-batch 4, 8, optimizer state off chip",
            "the best split found needs 105.0 % of a tile (947 MiB in all) on IPU 3, with micro-batch 4",
        ),
        (
            "4 IPUs a replica, micro-batch 4, one IPU at a time",
            "the best split found needs 150.0 % of a tile (947 MiB in all) on IPU 3",
        ),
    ]
