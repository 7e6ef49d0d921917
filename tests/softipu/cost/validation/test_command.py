"""What the commands print."""

import json

import pytest

from softipu.cost.validation import validate_output
from softipu.errors import Error
from softipu.report.devices import devices_output

TINY = {"family": "gpt2", "layers": 2, "hidden": 32, "heads": 2, "feed_forward": 64, "vocabulary": 100, "sequence_length": 16}
RUN = {"system": "bow-pod4", "ipus_per_replica": 2, "replicas": 2, "micro_batch": 2, "gradient_accumulation": 16, "phase": "training",
       "layers_per_ipu": [1, 1], "precision": "fp16", "partials": "fp16", "recompute": "every-layer", "optimizer": "AdamW"}  # fmt: skip


@pytest.fixture
def file(tmp_path):
    entry = {"id": "T1", "model": TINY, "run": RUN, "measured": {"items_per_second": 1000, "fits": True}, "source": "none"}
    path = tmp_path / "runs.json"
    path.write_text(json.dumps({"schema": 1, "entries": [entry]}), encoding="utf-8")
    return path


def test_json_has_a_row_with_the_agreed_keys(file):
    pytest.importorskip("transformers")
    data = json.loads(validate_output(file, "json"))
    (row,) = data["rows"]
    assert data["schema"] == 1
    assert set(row) == {"id", "predicted_items_per_second", "measured_items_per_second", "ratio", "fits", "known_fits"}
    assert row["ratio"] == row["predicted_items_per_second"] / 1000 and row["fits"] is row["known_fits"] is True


def test_text_ends_with_the_errors(file):
    pytest.importorskip("transformers")
    text = validate_output(file)
    assert text.splitlines()[-2].startswith("Throughput of 1 run: median error")
    assert text.splitlines()[-1] == "Fits or not, of 1 run: 1 right."


def test_unknown_formats_are_errors(file):
    with pytest.raises(Error, match="Unknown format 'xml' of a validation; allowed are text and json"):
        validate_output(file, "xml")
    with pytest.raises(Error, match="Unknown format 'xml' of the list of devices"):
        devices_output("xml")


def test_devices_as_json():
    assert json.loads(devices_output("json"))["schema"] == 1
