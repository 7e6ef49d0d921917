"""The file of published runs, plans made of it, and what the model says of it."""

import json

import pytest
import torch

from softipu.cost import Partials, Stage
from softipu.cost.validation.families import Model, build, families
from softipu.cost.validation.layout import optimizer_of, plan_of
from softipu.cost.validation.published import PublishedRun, read_published
from softipu.cost.validation.runs import validate
from softipu.errors import Error

RUN = {"system": "bow-pod16", "ipus_per_replica": 4, "replicas": 4, "micro_batch": 2, "phase": "training", "precision": "fp16"}
MODEL = Model(
    None,
    (),
    layers=tuple(f"h.{i}" for i in range(6)),
    halves=tuple(f"h.{i}.mlp" for i in range(6)),
    head="head",
    tied=True,
    serialized=("head",),
    begins=(("encoder 2", "h.2"), ("encoder 4", "h.4"), ("encoder 5", "h.5")),
)


def run(**changes):
    return PublishedRun("R1", {"family": "gpt2"}, {**RUN, **changes}, None, None)


def begins(**changes):
    return [(s.begin, s.ipu) for s in plan_of(run(**changes), MODEL).stages]


def write(tmp_path, data):
    file = tmp_path / "runs.json"
    file.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return file


def test_layers_per_ipu_become_stages_and_a_tied_head_returns_to_the_first_ipu():
    assert begins(layers_per_ipu=[0, 2, 2, 2]) == [("", 0), ("h.0", 1), ("h.2", 2), ("h.4", 3), ("head", 0)]


def test_half_a_layer_begins_at_its_second_half():
    assert begins(layers_per_ipu=[0.5, 1.5, 2, 2])[1:4] == [("h.0.mlp", 1), ("h.2", 2), ("h.4", 3)]


def test_a_split_may_be_named():
    assert begins(split_at=["encoder 2", "encoder 4", "encoder 5"])[1:4] == [("h.2", 1), ("h.4", 2), ("h.5", 3)]


def test_options_reach_the_plan():
    given = run(
        layers_per_ipu=[0, 2, 2, 2], recompute="every-layer", gradient_accumulation=64, device_iterations=8, partials="fp16",
        embedding_serialization=4, optimizer_state="off-chip", replicated_tensor_sharding=True,
        available_memory_proportion=[0.1, 0.2, 0.2, 0.2],
    )  # fmt: skip
    plan = plan_of(given, MODEL)
    assert plan.stages[1] == Stage("h.0", 1, True)
    assert plan.checkpoints == MODEL.layers
    assert (plan.gradient_accumulation, plan.device_iterations, plan.partials) == (64, 8, Partials.HALF)
    assert plan.serialized == (("head", 4),)
    assert plan.optimizer_state_off_chip and plan.replicated_tensor_sharding
    assert plan.memory_proportion(1) == 0.2


def test_half_models_have_half_accumulators():
    spec = optimizer_of(run(optimizer="LAMB"), ("a",))
    assert (spec.rule, spec.accum_type, spec.first_order_type, spec.second_order_type) == (
        "LAMB",
        torch.float16,
        torch.float16,
        torch.float32,
    )
    assert optimizer_of(run(phase="inference"), ("a",)) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers_per_ipu": [1, 2, 3]}, r"Run R1 has layers_per_ipu \[1, 2, 3\]; give 4 numbers that add up to 6"),
        ({"split_at": ["encoder 9"]}, "Run R1 splits at 'encoder 9'; the model has encoder 2"),
        ({"precision": "fp8"}, "Run R1 has precision 'fp8'; known are fp16, fp32"),
        ({"optimizer": "Lion"}, "Run R1 has the optimizer 'Lion'; known are SGD"),
    ],
)
def test_what_a_run_cannot_mean_is_an_error(changes, message):
    given = run(**changes)
    with pytest.raises(Error, match=message):
        plan_of(given, MODEL)
        optimizer_of(given, ("a",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ({"schema": 2}, "has schema 2; this version reads schema 1"),
        ({"schema": 1}, "has None as its entries; give a list"),
    ],
)
def test_files_of_another_kind_are_errors(tmp_path, content, message):
    with pytest.raises(Error, match=message):
        read_published(write(tmp_path, content))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (7, "Entry number 0 of the published runs is 7"),
        ({"id": "A", "model": {}}, "Entry A of the published runs lacks 'run'"),
        ({"id": "A", "model": {}, "run": {"system": "c600"}}, "run of entry A lacks 'ipus_per_replica'"),
        ({"id": "A", "model": {}, "run": {**RUN, "phase": None}}, "run of entry A lacks 'phase'"),
        ({"id": "A", "model": [], "run": [1]}, r"Entry A of the published runs has \[1\] as its run"),
        ({"id": "A", "model": {}, "run": {**RUN, "phase": "evaluation"}}, "Run A has phase 'evaluation'; known are training, inference"),
        ({"id": "A", "model": {}, "run": {**RUN, "recompute": "some"}}, "Run A has recompute 'some'; known are none, every-layer"),
        ({"id": "A", "model": {}, "run": {**RUN, "micro_batch": "two"}}, "Run A has micro_batch 'two'; give a whole number from 1"),
        ({"id": "A", "model": {}, "run": {**RUN, "gradient_accumulation": 0}}, "Run A has gradient_accumulation 0; give a whole number"),
        ({"id": "A", "model": {}, "run": {**RUN, "available_memory_proportion": [0.1, 2]}}, r"proportion \[0.1, 2\]; give fractions"),
        ({"id": "A", "model": {"hidden": -1}, "run": RUN}, "The model of entry A has hidden -1; give a size above 0"),
    ],
)
def test_a_broken_entry_is_a_row_that_says_what_is_wrong_and_the_others_are_read(tmp_path, entry, message):
    good = {"id": "B", "model": {"family": "gpt2"}, "run": {**RUN, "colour": "red"}, "measured": None, "note": "unknown keys do not matter"}
    bad, other = read_published(write(tmp_path, {"schema": 1, "entries": [entry, good]}))
    other.check()
    assert (other.id, other.items_per_second, other.fits) == ("B", None, None)
    with pytest.raises(Error, match=message):
        bad.check()
    (row,) = validate([bad])
    assert row.error == bad.problem and row.fits is None


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(Error, match="Cannot read the file of published runs .*No such file"):
        read_published(tmp_path / "none.json")


def test_families_are_known_by_other_spellings():
    assert {"resnet50", "bert-pretraining", "gpt2", "gptj", "vit", "swin", "conformer"} <= set(families())
    with pytest.raises(Error, match="Unknown model family 'alexnet'. Known are resnet18"):
        build({"family": "alexnet"}, micro_batch=1, training=True, dtype=torch.float16)


def test_missing_size_is_an_error():
    with pytest.raises(Error, match="lacks 'hidden', which the family 'gpt2' needs"):
        build({"family": "GPT-2", "sequence_length": 8, "vocabulary": 9}, micro_batch=1, training=True, dtype=torch.float16)


def test_sizes_that_do_not_go_together_are_an_error():
    pytest.importorskip("transformers")
    sizes = {"layers": 1, "hidden": 10, "heads": 3, "feed_forward": 8, "vocabulary": 9, "sequence_length": 8}
    with pytest.raises(Error, match="cannot be built: .*Check its sizes"):
        build({"family": "gpt2", **sizes}, micro_batch=1, training=True, dtype=torch.float16)
