from dataclasses import replace

from softipu.report.plan import Plan, Schedule, Stage
from softipu.report.words import layout_words, numbered

TWO = (Stage("", 0), Stage("body", 1, recompute=True))


def test_a_plain_plan_says_only_its_size():
    assert layout_words(Plan()) == "1 replica x 1 IPU, micro-batch 1"


def test_what_saves_memory_is_named():
    plan = Plan(stages=TWO, gradient_accumulation=1024, replicas=4, optimizer_state_off_chip=True, replicated_tensor_sharding=True)
    assert layout_words(plan) == (
        "4 replicas x 2 IPUs, micro-batch 1, accumulation 1,024, recompute stage 1, optimizer state off chip, replicated tensor sharding"
    )


def test_a_sharded_schedule_is_named_where_there_are_several_ipus():
    plan = Plan(stages=TWO, schedule=Schedule.SHARDED, serialized=(("body.0", 4),), n_io_tiles=32, device_iterations=8)
    assert layout_words(plan) == (
        "1 replica x 2 IPUs, micro-batch 1, device iterations 8, recompute stage 1, 32 I/O tiles, one IPU at a time, body.0 in 4 parts"
    )


def test_recomputing_everywhere_is_said_once():
    plan = Plan(stages=tuple(replace(stage, recompute=True) for stage in TWO))
    assert layout_words(plan).endswith("recompute every stage")


def test_numbers_are_joined_to_ranges():
    assert numbered("stage", [0]) == "stage 0"
    assert numbered("stage", [0, 1, 4, 6, 7, 8]) == "stages 0, 1, 4, 6 to 8"
